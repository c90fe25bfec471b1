// The SQS emulator, and networks that are slow on purpose, in a process of their own: what they cost is not ours.

import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { startQueueServer } from '../../../infra/local/fauxqs.ts';

interface Request {
  readonly id: string;
  readonly kind: 'endpoint' | 'proxy';
  readonly url: string;
  readonly delayMs: number;
}

const queues = await startQueueServer({ region: 'us-east-1' });

process.on('message', (request: Request) => {
  void answer(request).then((value) => process.send?.({ id: request.id, value }));
});
process.on('disconnect', () => process.exit());

const answer = ({ kind, url, delayMs }: Request): Promise<string> =>
  kind === 'endpoint' ? Promise.resolve(queues.endpoint) : startSlowNetwork(url, delayMs);

/**
 * Passes bytes on, those from the client later by `delayMs`: a request and its answer take that much longer, whatever
 * the protocol. (test/support/tcp-proxy.ts, which cuts and holds single statements, reads every message it passes: that
 * would be measured.)
 */
async function startSlowNetwork(target: string, delayMs: number): Promise<string> {
  const url = new URL(target);
  const { hostname: host, port } = url;
  const server = createServer({ noDelay: true }, (client) => {
    const server = connect({ host, port: Number(port), noDelay: true });
    client.on('data', (chunk) => void setTimeout(() => server.write(chunk), delayMs));
    server.on('data', (chunk) => void client.write(chunk));
    endWith(client, server);
    endWith(server, client);
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  url.hostname = '127.0.0.1';
  url.port = String((server.address() as AddressInfo).port);
  return url.href.replace(/\/$/, '');
}

function endWith(socket: Socket, other: Socket): void {
  socket.on('error', () => undefined);
  socket.on('close', () => other.destroy());
}
