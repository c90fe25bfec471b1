// The functions' own pool, when connections fail under it.

import { createServer, type AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { afterwards } from './support/cleanup.ts';
import { startProcess } from './support/process.ts';

/** A message of PostgreSQL's protocol: its type, its length, its content. */
function message(type: string, content: Buffer): Buffer {
  const head = Buffer.alloc(5, type);
  head.writeInt32BE(content.length + 4, 1);
  return Buffer.concat([head, content]);
}

const AUTHENTICATED = message('R', Buffer.alloc(4));
const READY = message('Z', Buffer.from('I'));
const TERMINATED = message('E', Buffer.from('SFATAL\0VFATAL\0C57P01\0Mterminating connection\0\0'));

// The fault campaign's find. Node ends a process at an 'error' event that nobody listens to; when the end of a session
// comes in one read with the answer that makes it ready, the pool has handed it out and Prisma does not listen yet.
test('a connection that ends in the moment it is handed out costs a transaction, not the process', async () => {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => socket.end(Buffer.concat([AUTHENTICATED, READY, TERMINATED])));
  });
  afterwards(() => server.close());
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address() as AddressInfo;
  const program = startProcess(new URL('./support/programs/transact.ts', import.meta.url), {
    env: { DATABASE_URL: `postgresql://nobody:none@127.0.0.1:${port}/none` },
  });
  expect(await program.message((answer) => 'end' in (answer as object))).toEqual({ end: 'rejected' });
  expect(await program.exited).toEqual({ code: 0, signal: null });
});
