// How fast effects are applied: our consumer, the same engine without Prisma, and hand-written SQL.

import { randomUUID } from 'node:crypto';
import type { Context, SQSRecord } from 'aws-lambda';
import pLimit from 'p-limit';
import { consumerConfig } from '../../functions/consumer/config.ts';
import { consumer } from '../../functions/consumer/consumer.ts';
import { orderEvents, type OrderPlaced } from '../../functions/events/order.ts';
import { writeEnvelope } from '../../functions/outbox/envelope.ts';
import { connect } from '../../functions/shared/database.ts';
import type { RawClient, RootClient, TransactionClient } from '../../functions/shared/store.ts';
import { sideBySide, silently, type Bench, type Benchmark } from './harness/bench.ts';
import { meter, meterCells, summaryOf } from './harness/meter.ts';
import { pgClient } from './harness/pg-client.ts';

const SKUS = 200;
const TAKE = 'UPDATE stock_balance SET available = available - $2 WHERE sku = $1 AND available >= $2';
const ENTER = `INSERT INTO applied_event (consumer, source, event_id) VALUES ('stock', '/orders', $1::uuid) ON CONFLICT DO NOTHING`;
const STILL_ENTERED = `SELECT count(*)::int AS entered FROM applied_event
  WHERE consumer = 'stock' AND source = '/orders' AND event_id = $1::uuid AND xmin = pg_current_xact_id()::xid`;

/** The effect: takes units from the stock by one statement, whatever the client. */
const take = (tx: RawClient, { sku, quantity }: OrderPlaced) => tx.$executeRawUnsafe(TAKE, sku, quantity);

interface Way {
  readonly through: 'Prisma' | 'pg' | 'hand-written pg';
  readonly per: 'record' | 'batch';
  readonly batch: number;
  readonly concurrency: number;
}

const SHAPES = [
  { per: 'record', batch: 1, concurrency: 1 },
  { per: 'record', batch: 10, concurrency: 1 },
  { per: 'record', batch: 10, concurrency: 4 },
  { per: 'batch', batch: 10, concurrency: 1 },
] as const;

const WAYS: readonly Way[] = SHAPES.flatMap((shape) =>
  (['Prisma', 'pg', 'hand-written pg'] as const).map((through) => ({ through, ...shape })),
);

/** Enough to see that each kind runs. */
const FEW_WAYS = WAYS.filter(
  ({ through, per, concurrency }) => through !== 'pg' && (per === 'batch' || concurrency === 4),
);

/** `npm run bench -- consumer` */
export const consumerBench: Benchmark = async (bench) => {
  const records = bench.pick(20, 1_000, 5_000);
  const repetitions = bench.pick(1, 3, 3);
  const all = await sideBySide(bench.pick(FEW_WAYS, WAYS, WAYS), repetitions, (way) =>
    silently(() => measure(bench, way, records)),
  );
  const rows = [...all].map(([{ through, per, batch, concurrency }, measured]) => {
    const concurrencyText = per === 'batch' ? '–' : String(concurrency);
    return [through, `per ${per}`, String(batch), concurrencyText, ...meterCells(measured)];
  });
  return {
    tables: [
      {
        title: 'Applying effects',
        columns: [
          'through',
          'transaction',
          'batch',
          'concurrency',
          'effects/s',
          'µs/effect: Node',
          'PostgreSQL',
        ],
        rows,
        note: `${records} records, ${repetitions} repetitions, interleaved; one invocation after another, as one sandbox has them. "Prisma" is consumer() as deployed; "pg" is consumer() over a client that speaks to pg directly; "hand-written pg" is BEGIN, ledger, effect, proof, COMMIT and nothing else.`,
      },
    ],
    data: { ways: [...all].map(([way, measured]) => ({ ...way, ...summaryOf(measured) })) },
  };
};

async function measure(bench: Bench, way: Way, records: number) {
  const database = await bench.postgres.create();
  await database.sql(
    `INSERT INTO stock_balance SELECT 'SKU-' || n, 1000000000 FROM generate_series(0, ${SKUS - 1}) AS n`,
  );
  const { client, close } = clientOf(way, database.url);
  const batches = batchesOf(records, way.batch);
  const apply =
    way.through === 'hand-written pg' ? byHand(way, client) : handlerOf(way, client, database.url);
  // Warms up with records of its own.
  for (const batch of batchesOf(way.batch * 20, way.batch)) await apply(batch);
  await database.settle();
  const metered = await meter(bench, records, async () => {
    for (const batch of batches) await apply(batch);
  });
  await close();
  await database.drop();
  return metered;
}

function clientOf(
  { through, concurrency }: Way,
  url: string,
): { client: RootClient; close: () => Promise<void> } {
  if (through === 'Prisma') {
    const prisma = connect({ databaseUrl: url, poolSize: concurrency });
    return { client: prisma, close: () => prisma.$disconnect() };
  }
  const { client, pool } = pgClient(url, concurrency);
  return { client, close: () => pool.end() };
}

function handlerOf({ per, concurrency }: Way, prisma: RootClient, url: string) {
  const config = consumerConfig({
    DATABASE_URL: url,
    OUTBOX_QUEUE_URL: 'http://127.0.0.1/unused',
    OUTBOX_CONCURRENCY: String(concurrency),
  });
  const handler = consumer<(typeof orderEvents)['schemas'], TransactionClient>({
    name: 'stock',
    events: orderEvents,
    effects: { 'order.placed': async (tx, { data }) => take(tx, data) },
    prisma,
    config,
    transactionPer: per,
  });
  const context = { getRemainingTimeInMillis: () => 30_000 } as Context;
  return async (batch: SQSRecord[]) => {
    const { batchItemFailures } = await handler({ Records: batch }, context);
    if (batchItemFailures.length > 0) throw new Error(`${batchItemFailures.length} records failed`);
  };
}

const applyByHand = async (tx: TransactionClient, { body }: SQSRecord) => {
  const { id, data } = JSON.parse(body) as { id: string; data: OrderPlaced };
  if ((await tx.$executeRawUnsafe(ENTER, id)) === 0) return;
  await take(tx, data);
  await tx.$queryRawUnsafe(STILL_ENTERED, id);
};

/** What is left when everything else is taken away. */
function byHand({ per, concurrency }: Way, client: RootClient) {
  return async (batch: SQSRecord[]) => {
    const limit = pLimit(concurrency);
    if (per === 'record') {
      await Promise.all(
        batch.map((record) => limit(() => client.$transaction((tx) => applyByHand(tx, record)))),
      );
      return;
    }
    await client.$transaction(async (tx) => {
      for (const record of batch) await applyByHand(tx, record);
    });
  };
}

function batchesOf(records: number, size: number): SQSRecord[][] {
  const all = Array.from({ length: records }, (_, n) => recordOf(n));
  return Array.from({ length: Math.ceil(records / size) }, (_, n) => all.slice(n * size, (n + 1) * size));
}

function recordOf(n: number): SQSRecord {
  const data: OrderPlaced = { orderId: `ORDER-${n}`, sku: `SKU-${n % SKUS}`, quantity: 2 };
  const body = writeEnvelope({
    eventId: randomUUID(),
    source: '/orders',
    type: 'order.placed',
    orderingKey: null,
    payload: JSON.stringify(data),
    recordedAt: '2026-11-30T12:00:00.000000Z',
  });
  const messageId = randomUUID();
  return {
    messageId,
    receiptHandle: messageId,
    body,
    eventSourceARN: 'arn:aws:sqs:us-east-1:0:stock',
  } as SQSRecord;
}
