// What a tick costs that finds nothing to do: six of them a minute, day and night.

import { createServer, connect as connectTo, type AddressInfo } from 'node:net';
import { relayConfig } from '../../functions/relay/config.ts';
import { partsOf } from '../../functions/relay/relay.ts';
import { tick } from '../../functions/relay/tick.ts';
import { connect } from '../../functions/shared/database.ts';
import { countdown } from '../../functions/shared/deadline.ts';
import { messageFramer, sqlOf } from '../support/pg-protocol.ts';
import type { Bench, Benchmark } from './harness/bench.ts';
import { meter, type Metered } from './harness/meter.ts';
import { figure } from './harness/stats.ts';

/** Published rows that lie around, as after a day. */
const SITUATIONS = [
  { name: 'nothing pending', keptShare: 0, ahead: 0 },
  { name: 'published events kept', keptShare: 1, ahead: 0 },
  { name: 'the same, and 1,000 events not due yet', keptShare: 1, ahead: 1_000 },
] as const;

/** `npm run bench -- idle` */
export const idle: Benchmark = async (bench) => {
  const kept = bench.pick(100, 100_000, 1_000_000);
  const ticks = bench.pick(3, 200, 1_000);
  const rows = [];
  const data = [];
  for (const { name, keptShare, ahead } of SITUATIONS) {
    const measured = await measure(bench, kept * keptShare, ahead, ticks);
    data.push({ name, ...measured });
    rows.push([
      name,
      figure(measured.statements),
      figure(measured.sent),
      figure(measured.received),
      figure(measured.milliseconds / ticks),
      figure((measured.nodeMs / ticks) * 1000),
      figure((measured.postgresMs / ticks) * 1000),
    ]);
  }
  const columns = ['outbox', 'statements', 'bytes sent', 'received', 'ms', 'µs: Node', 'PostgreSQL'];
  const note = `Per tick, over ${ticks} ticks of a warm relay; ${figure(kept)} published events where any are kept.`;
  return { tables: [{ title: 'An idle tick', columns, rows, note }], data: { situations: data } };
};

async function measure(
  bench: Bench,
  kept: number,
  ahead: number,
  ticks: number,
): Promise<Metered & Record<'statements' | 'sent' | 'received', number>> {
  const database = await bench.postgres.create();
  await database.sql(INSERT_KEPT, kept);
  await database.sql(INSERT_AHEAD, ahead);
  await database.settle();
  const wire = await startWireCounter(database.url);
  const config = relayConfig({
    DATABASE_URL: wire.url,
    OUTBOX_DESTINATIONS: '{"stock":{"kind":"sqs","queueUrl":"http://127.0.0.1/unused"}}',
  });
  const prisma = connect(config);
  const parts = { ...partsOf(prisma, config), report: () => undefined };
  const run = () => tick(parts, countdown(60_000));
  for (let n = 0; n < 5; n += 1) await run();
  const before = { ...wire.counts };
  const metered = await meter(bench, ticks, async () => {
    for (let n = 0; n < ticks; n += 1) await run();
  });
  const per = (key: keyof typeof before) => (wire.counts[key] - before[key]) / ticks;
  const result = { ...metered, statements: per('statements'), sent: per('sent'), received: per('received') };
  await prisma.$disconnect();
  wire.stop();
  await database.drop();
  return result;
}

const INSERT_KEPT = `
INSERT INTO outbox_event (event_id, destination, source, type, payload, state, published_at, message_id, attempts)
SELECT gen_random_uuid(), 'stock', '/orders', 'order.placed', '{}', 'PUBLISHED', now(), n::text, 1 FROM generate_series(1, $1::int) AS n`;
const INSERT_AHEAD = `
INSERT INTO outbox_event (event_id, destination, source, type, payload, due_at)
SELECT gen_random_uuid(), 'stock', '/orders', 'order.placed', '{}', now() + interval '1 hour' FROM generate_series(1, $1::int)`;

/** Counts statements and bytes on the way to a database, as they are sent. */
async function startWireCounter(databaseUrl: string) {
  const target = new URL(databaseUrl);
  const counts = { statements: 0, sent: 0, received: 0 };
  const server = createServer({ noDelay: true }, (client) => {
    const postgres = connectTo({ host: '127.0.0.1', port: Number(target.port), noDelay: true });
    const frame = messageFramer();
    client.on('data', (chunk) => {
      counts.sent += chunk.length;
      for (const message of frame(chunk)) if (sqlOf(message) !== undefined) counts.statements += 1;
      postgres.write(chunk);
    });
    postgres.on('data', (chunk) => {
      counts.received += chunk.length;
      client.write(chunk);
    });
    for (const socket of [client, postgres]) socket.on('error', () => undefined);
    client.on('close', () => postgres.destroy());
    postgres.on('close', () => client.destroy());
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const url = new URL(databaseUrl);
  url.port = String((server.address() as AddressInfo).port);
  return { url: url.href, counts, stop: () => void server.close() };
}
