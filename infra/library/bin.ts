#!/usr/bin/env node
import { main } from '../outbox.ts';

process.exitCode = await main(process.argv.slice(2));
