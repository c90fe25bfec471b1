// Runs once, before the first worker: see server.ts.

import type { TestProject } from 'vitest/node';
import { startTestServer, type TestServer } from './server.ts';

declare module 'vitest' {
  interface ProvidedContext {
    server: TestServer;
  }
}

/**
 * One PostgreSQL for all workers; Vitest calls the returned function after the last test file.
 * With TEST_TIME_ZONE an embedded one lives in that time zone: see elsewhere.test.ts.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const timeZone = process.env['TEST_TIME_ZONE'];
  const { server, stop } = await startTestServer(process.env['DATABASE_URL'], timeZone ? { timeZone } : {});
  project.provide('server', server);
  return stop;
}
