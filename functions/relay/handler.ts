import { connect } from '../shared/database.ts';
import { relayConfig } from './config.ts';
import { relay } from './relay.ts';

const config = relayConfig(process.env);

/** The Lambda entry. */
export const handler = relay({ prisma: connect(config), config });
