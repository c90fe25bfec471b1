// The example's functions as they are deployed: their modules, their environments, batches from end to end.

import type { Context, SQSEvent } from 'aws-lambda';
import { beforeAll, expect, test, vi } from 'vitest';
import type { handler as HistoryHandler } from '../functions/history/handler.ts';
import type { handler as StockHandler } from '../functions/stock/handler.ts';
import { reserveStock } from '../functions/stock/reserve.ts';
import type { PrismaClient } from '../prisma/client/client.ts';
import { afterwards } from './support/cleanup.ts';
import {
  again,
  captureReports,
  contextWith,
  orderRecord,
  receivedTimes,
  recordOf,
  startConsumer,
} from './support/consumer.ts';
import { createDatabase, createPrisma, type TestDatabase } from './support/database.ts';
import { startScriptedSqs, type ScriptedSqs } from './support/scripted-sqs.ts';

let db: TestDatabase;
let queues: ScriptedSqs;

beforeAll(async () => {
  db = await createDatabase();
  queues = await startScriptedSqs({
    queues: { stock: {}, dead: {}, 'history.fifo': {}, 'dead.fifo': {}, tick: {} },
  });
});

/** What `serverless.yml` gives each function. */
const variables = (): Record<string, Record<string, string>> => {
  const stock = { kind: 'sqs', queueUrl: queues.queueUrl('stock') };
  const history = { kind: 'sqs', queueUrl: queues.queueUrl('history.fifo') };
  return {
    relay: { OUTBOX_DESTINATIONS: JSON.stringify({ stock, history }) },
    prune: {},
    migrate: {},
    orders: { OUTBOX_TICK_QUEUE_URL: queues.queueUrl('tick') },
    stock: {
      OUTBOX_QUEUE_URL: queues.queueUrl('stock'),
      OUTBOX_DEAD_LETTER_QUEUE_URL: queues.queueUrl('dead'),
    },
    history: {
      OUTBOX_QUEUE_URL: queues.queueUrl('history.fifo'),
      OUTBOX_DEAD_LETTER_QUEUE_URL: queues.queueUrl('dead.fifo'),
    },
  };
};

/** Loads a function's module as a cold start does, with its own variables and nothing else of ours. */
async function coldStart(name: string, without?: string): Promise<{ handler: unknown }> {
  // The SDK reads its own at the first call, so they stay until the test ends.
  afterwards(() => vi.unstubAllEnvs());
  const environment = { ...queues.env, DATABASE_URL: db.url, ...variables()[name] };
  for (const [key, value] of Object.entries(environment)) if (key !== without) vi.stubEnv(key, value);
  vi.resetModules();
  return (await import(`../functions/${name}/handler.ts`)) as { handler: unknown };
}

const order = (orderId: string, sku: string, quantity: number) =>
  orderRecord({ data: { orderId, sku, quantity } });

test('a batch of everything: each record meets its own end, and each order takes its stock once', async () => {
  await db.sql("INSERT INTO stock_balance VALUES ('SKU-17', 10), ('SKU-18', 1), ('Söckchen 🧦', 3)");
  const taken = order('ORDER-1', 'SKU-17', 2);
  const unknown = order('ORDER-3', 'SKU-99', 1);
  const event: SQSEvent = {
    Records: [
      taken,
      { ...taken, messageId: 'the same event in another message' },
      order('ORDER-2', 'SKU-18', 2),
      unknown,
      recordOf('{"order":"of another system"}'),
      order('ORDER-4', 'Söckchen 🧦', 3),
    ],
  };
  const reports = captureReports();
  const { handler } = (await coldStart('stock')) as { handler: typeof StockHandler };
  expect(await handler(event, contextWith())).toEqual({
    batchItemFailures: [{ itemIdentifier: unknown.messageId }],
  });
  expect(await db.sql('SELECT * FROM stock_balance ORDER BY sku')).toEqual([
    { sku: 'SKU-17', available: 8 },
    { sku: 'SKU-18', available: 1 },
    { sku: 'Söckchen 🧦', available: 0 },
  ]);
  expect(await db.sql('SELECT DISTINCT consumer, count(*) AS n FROM applied_event GROUP BY 1')).toEqual([
    { consumer: 'stock', n: 2 },
  ]);
  const reasons = queues
    .stored('dead')
    .map(({ attributes }) => attributes['outbox-reason']?.StringValue ?? '');
  expect(reasons.toSorted()).toEqual([
    'InvalidEnvelope: specversion: expected "1.0" (a CloudEvents envelope)',
    'TerminalError: Shortage: order ORDER-2 wants 2 of SKU-18, 1 are left',
  ]);
  expect(queues.calls.map(({ action, queue }) => `${action} ${queue}`)).toContain(
    'ChangeMessageVisibilityBatch stock',
  );
  expect(reports.at(-1)).toMatchObject({
    event: 'consumer.batch',
    consumer: 'stock',
    records: 6,
    applied: 2,
    duplicates: 1,
    retried: 1,
    terminal: 2,
    unstarted: 0,
  });
});

/** A consumer of orders whose SKU is filled up right after it was found to have too few units. */
function startFilledUp(sku: string, available: number) {
  const prisma = createPrisma(db.url, { max: 2 }).$extends({
    query: {
      stockBalance: {
        findUnique: async ({ args, query }) => {
          await db.sql('UPDATE stock_balance SET available = $2 WHERE sku = $1', [sku, available]);
          return query(args);
        },
      },
    },
  });
  return startConsumer({
    db,
    queues,
    effects: { 'order.placed': (tx, { data }) => reserveStock(tx, data) },
    prisma: prisma as unknown as PrismaClient,
  });
}

test('a SKU that is filled up between the two statements is no shortage: the order is tried again, and fits', async () => {
  await db.sql("INSERT INTO stock_balance VALUES ('SKU-20', 1)");
  const reports = captureReports();
  const filledUp = startFilledUp('SKU-20', 10);
  const record = order('ORDER-5', 'SKU-20', 2);
  const buried = queues.stored('dead').length;
  expect(await filledUp.deliver([record])).toEqual([record.messageId]);
  expect(reports).toContainEqual(
    expect.objectContaining({ outcome: 'retry', reason: expect.stringContaining('JustFilledUp: SKU-20') }),
  );
  expect(await db.sql("SELECT available FROM stock_balance WHERE sku = 'SKU-20'")).toEqual([
    { available: 10 },
  ]);
  expect(await filledUp.deliver([again(record)])).toEqual([]);
  expect(await db.sql("SELECT available FROM stock_balance WHERE sku = 'SKU-20'")).toEqual([
    { available: 8 },
  ]);
  expect(queues.stored('dead')).toHaveLength(buried);
});

test('a SKU that is filled up by too little is still a shortage', async () => {
  await db.sql("INSERT INTO stock_balance VALUES ('SKU-21', 1)");
  captureReports();
  expect(await startFilledUp('SKU-21', 2).deliver([order('ORDER-6', 'SKU-21', 3)])).toEqual([]);
  expect(queues.stored('dead').at(-1)?.attributes['outbox-reason']?.StringValue).toBe(
    'TerminalError: Shortage: order ORDER-6 wants 3 of SKU-21, 2 are left',
  );
});

const historyRecord = (type: string, orderId: string) =>
  orderRecord(
    { type, data: { orderId, ...(type === 'order.placed' && { sku: 'SKU-17', quantity: 1 }) } },
    {
      eventSourceARN: 'arn:aws:sqs:us-east-1:000000000000:history.fifo',
      attributes: { ...receivedTimes(1), MessageGroupId: orderId },
    },
  );

test('the history takes each step of each order once, in the order of its queue', async () => {
  const steps = ['order.placed', 'order.paid', 'order.shipped'];
  const records = steps.flatMap((type) =>
    ['ORDER-7', 'ORDER-8'].map((orderId) => historyRecord(type, orderId)),
  );
  captureReports();
  const { handler } = (await coldStart('history')) as { handler: typeof HistoryHandler };
  expect(await handler({ Records: records }, contextWith())).toEqual({ batchItemFailures: [] });
  expect(await handler({ Records: records.map(again) }, contextWith())).toEqual({ batchItemFailures: [] });
  const histories = await db.sql(
    'SELECT order_id AS id, array_agg(step ORDER BY position) AS steps FROM order_history GROUP BY 1 ORDER BY 1',
  );
  expect(histories).toEqual(
    ['ORDER-7', 'ORDER-8'].map((id) => ({ id, steps: ['placed', 'paid', 'shipped'] })),
  );
});

test('an incomplete environment stops the cold start and names the variable', async () => {
  await expect(coldStart('stock', 'OUTBOX_QUEUE_URL')).rejects.toThrow(/OUTBOX_QUEUE_URL: is not set/);
});

// E4: the runtime refuses a handler that declares a third parameter, a callback.
test.each(['relay', 'orders', 'stock', 'history', 'prune', 'migrate'])(
  'the handler of %s declares at most two parameters',
  async (name) => {
    const { handler } = await coldStart(name);
    expect(handler).toBeTypeOf('function');
    expect((handler as (event: unknown, context: Context) => unknown).length).toBeLessThanOrEqual(2);
  },
);
