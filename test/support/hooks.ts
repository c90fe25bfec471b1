// Loaded by Vitest before every test file (setupFiles).

import { afterAll, afterEach, beforeEach } from 'vitest';
import { beginTest, endFile, endTest } from './cleanup.ts';

beforeEach(beginTest);
// Registered before the file's own hooks, so these run after them.
afterEach(endTest);
afterAll(endFile);
