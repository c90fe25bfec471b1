// What a hostile review broke once, each with the right result.

import { setTimeout as sleep } from 'node:timers/promises';
import type { SQSRecord } from 'aws-lambda';
import { expect, test } from 'vitest';
import { recordEvents } from '../functions/outbox/record.ts';
import { tick } from '../functions/relay/tick.ts';
import { countdown } from '../functions/shared/deadline.ts';
import { TerminalError } from '../functions/shared/errors.ts';
import type { Prisma } from '../prisma/client/client.ts';
import { captureReports, createConsumerDatabase, orderRecord, startConsumer } from './support/consumer.ts';
import { createDatabase, createPrisma } from './support/database.ts';
import { insertEvents, leaseExpired } from './support/factories.ts';
import { destinationsOf, outboxRows, relayParts, stateCounts, storedIds } from './support/relay.ts';
import { fail, stall, startScriptedSqs } from './support/scripted-sqs.ts';

const trap = () => {
  throw new Error('trapped');
};

test('half of a rolled-back effect does not commit on its own: Prisma sends several statements for one upsert', async () => {
  const db = await createConsumerDatabase();
  const queues = await startScriptedSqs({ queues: { stock: {}, dead: {} } });
  await db.sql("INSERT INTO stock_balance VALUES ('SKU-17', 10)");
  captureReports();
  const { deliver } = startConsumer({
    db,
    queues,
    effects: {
      'order.placed': async (tx: Prisma.TransactionClient, { data }) => {
        const refused = sleep(0).then(() => Promise.reject(new TerminalError('not allowed')));
        const { sku, quantity } = data as { sku: string; quantity: number };
        await Promise.all([
          tx.stockBalance.upsert({
            where: { sku, available: { gte: 0 } },
            create: { sku, available: quantity },
            update: { available: { increment: quantity } },
          }),
          refused,
        ]);
      },
    },
  });
  for (let n = 0; n < 5; n += 1) await deliver([orderRecord()]);
  await sleep(300);
  expect(await db.sql('SELECT available FROM stock_balance')).toEqual([{ available: 10 }]);
  expect(await db.sql('SELECT count(*) AS n FROM applied_event')).toEqual([{ n: 0 }]);
});

test('what an effect gave Prisma does not reach the log or the reason', async () => {
  const db = await createConsumerDatabase();
  const queues = await startScriptedSqs({ queues: { stock: {}, dead: {} } });
  const lines = captureReports();
  const { deliver } = startConsumer({
    db,
    queues,
    effects: {
      'order.placed': (tx: Prisma.TransactionClient) =>
        tx.order.create({ data: { id: 'o', sku: 's', quantity: 1, note: 'CARD 4111', status: 5 as never } }),
    },
  });
  const record: SQSRecord = orderRecord();
  expect(await deliver([record])).toEqual([record.messageId]);
  expect(JSON.stringify(lines)).toContain('Argument `status`');
  expect(JSON.stringify(lines)).not.toContain('4111');
});

test('a queue that never answers, full of suspects, does not starve a healthy one', async () => {
  const db = await createDatabase();
  const prisma = createPrisma(db.url);
  const sqs = await startScriptedSqs({ queues: { stock: {}, mail: {} } });
  sqs.on(({ queue }) => (queue === 'stock' ? stall() : undefined));
  await insertEvents(db, 150, leaseExpired({ attempts: 2, secondsAgo: 60, dueInSeconds: -120 }));
  const healthy = await insertEvents(db, 1, { destination: 'mail' });
  const relay = relayParts(prisma, sqs, {
    destinations: destinationsOf(sqs, 'stock', 'mail'),
    callTimeoutSeconds: 0.4,
  });
  const counts = await tick(relay, countdown(8_000));
  expect(storedIds(sqs, 'mail')).toEqual(healthy.map(({ eventId }) => eventId));
  // The suspects stepped back: they were not claimed over and over.
  expect(counts.claimed).toBeLessThan(600);
});

test('the same id of two sources is two events, for the outbox and for a FIFO queue', async () => {
  const db = await createDatabase();
  const prisma = createPrisma(db.url);
  const sqs = await startScriptedSqs({ queues: { 'stock.fifo': {} } });
  const id = '01936f2b-0000-7000-8000-000000000001';
  const of = (source: string) => ({ id, source, type: 't', payload: source, destinations: ['stock.fifo'] });
  const named = (source: string) => ({ ...of(source), destinations: ['stock'], orderingKey: 'key' });
  await prisma.$transaction((tx) => recordEvents(tx, [named('/tenant-a'), named('/tenant-b')]));
  const fifo = destinationsOf(sqs, 'stock.fifo')['stock.fifo'];
  await tick(relayParts(prisma, sqs, { destinations: fifo ? { stock: fifo } : {} }), countdown(10_000));
  const sources = sqs.stored('stock.fifo').map(({ body }) => (JSON.parse(body) as { source: string }).source);
  expect(sources).toEqual(['/tenant-a', '/tenant-b']);
});

test('a queue that throttles most entries of every call parks nothing', async () => {
  const db = await createDatabase();
  const prisma = createPrisma(db.url);
  const sqs = await startScriptedSqs();
  await insertEvents(db, 12);
  sqs.on(({ entries }) =>
    fail(Object.fromEntries(entries.slice(1).map(({ Id }) => [Id, { code: 'ThrottlingException' }]))),
  );
  for (let n = 0; n < 4; n += 1) {
    await tick(relayParts(prisma, sqs, { maxAttempts: 2 }), countdown(10_000));
    await db.sql("UPDATE outbox_event SET due_at = now() WHERE state = 'PENDING'");
  }
  expect((await stateCounts(db))['PARKED']).toBeUndefined();
  for (const { attempts } of await outboxRows(db)) expect(attempts).toBeLessThanOrEqual(1);
});

test('a terminal record that fills a message is buried without attributes, not kept for ever', async () => {
  const db = await createConsumerDatabase();
  const queues = await startScriptedSqs({ queues: { stock: {}, dead: {} } });
  captureReports();
  const { deliver } = startConsumer({ db, queues, effects: {} });
  const body = JSON.stringify({ no: 'envelope' }).padEnd(1_048_576);
  expect(await deliver([{ ...orderRecord(), body }])).toEqual([]);
  expect(queues.stored('dead')).toHaveLength(1);
});

test('a thrown value with traps in it fails its own record only', async () => {
  const db = await createConsumerDatabase();
  const queues = await startScriptedSqs({ queues: { stock: {}, dead: {} } });
  captureReports();
  const hostile: unknown = new Proxy({}, { get: trap, getPrototypeOf: trap, has: trap, ownKeys: trap });
  const { deliver } = startConsumer({
    db,
    queues,
    // oxlint-disable-next-line prefer-promise-reject-errors -- that it is no Error is the point
    effects: { 'order.placed': () => Promise.reject(hostile) },
  });
  const record: SQSRecord = orderRecord();
  expect(await deliver([record])).toEqual([record.messageId]);
});
