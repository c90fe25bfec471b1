// Runs once, before the first worker: see server.ts.

import type { TestProject } from 'vitest/node';
import { startTestServer, type TestServer } from './server.ts';

declare module 'vitest' {
  interface ProvidedContext {
    server: TestServer;
  }
}

/** One PostgreSQL for all workers; Vitest calls the returned function after the last test file. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { server, stop } = await startTestServer(process.env['DATABASE_URL']);
  project.provide('server', server);
  return stop;
}
