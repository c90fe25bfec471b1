// A consumer under test: its handler, its database, its queues, and SQS records in named situations.

import { ReceiveMessageCommand } from '@aws-sdk/client-sqs';
import type { Context, SQSRecord } from 'aws-lambda';
import { randomUUID } from 'node:crypto';
import { vi } from 'vitest';
import type { Prisma, PrismaClient } from '../../prisma/client/client.ts';
import { consumer, type ConsumerOptions } from '../../functions/consumer/consumer.ts';
import { consumerConfig } from '../../functions/consumer/config.ts';
import { orderEvents } from '../../functions/events/order.ts';
import { writeEnvelope } from '../../functions/outbox/envelope.ts';
import type { TransactionClient } from '../../functions/shared/store.ts';
import type { ReceivedEvent, Schemas } from '../../functions/outbox/event.ts';
import { afterwards } from './cleanup.ts';
import { createDatabase, createPrisma, type TestDatabase } from './database.ts';
import { terminateSessions } from './knobs.ts';
import type { ScriptedSqs } from './scripted-sqs.ts';

export type Tx = Prisma.TransactionClient;
type OrderSchemas = (typeof orderEvents)['schemas'];

/** Ends a test's wait for something that another part of it brings about. */
export type Gate = PromiseWithResolvers<void>;

/** A gate that opens by itself when the test ends, so that nothing waits on it for ever. */
export function gate(): Gate {
  const made = Promise.withResolvers<void>();
  afterwards(made.resolve);
  return made;
}

/** Lambda's context, counting down from `leftMs`. */
export function contextWith(leftMs = 30_000): Context {
  const end = performance.now() + leftMs;
  return { getRemainingTimeInMillis: () => end - performance.now() } as Context;
}

/** What travels, as the relay writes it; `data` is any JSON value. */
export interface Travelling {
  id: string;
  source: string;
  type: string;
  data: unknown;
}

/** The body of an `order.placed` message of two units of SKU-17, unless told otherwise. */
export function bodyOf({
  id = randomUUID(),
  source = '/orders',
  type = 'order.placed',
  data = { orderId: `ORDER-${id}`, sku: 'SKU-17', quantity: 2 },
}: Partial<Travelling> = {}): string {
  const recordedAt = '2026-11-30T12:00:00.000000Z';
  return writeEnvelope({
    eventId: id,
    source,
    type,
    orderingKey: null,
    payload: JSON.stringify(data),
    recordedAt,
  });
}

/** A record as Lambda hands it over, received for the first time. */
export function recordOf(body: string, overrides: Partial<SQSRecord> = {}): SQSRecord {
  const messageId = randomUUID();
  return {
    messageId,
    receiptHandle: `${messageId}.1`,
    body,
    attributes: receivedTimes(1),
    messageAttributes: {},
    md5OfBody: '',
    eventSource: 'aws:sqs',
    eventSourceARN: 'arn:aws:sqs:us-east-1:000000000000:stock',
    awsRegion: 'us-east-1',
    ...overrides,
  };
}

/** A record of an `order.placed` event. */
export const orderRecord = (event: Partial<Travelling> = {}, overrides?: Partial<SQSRecord>): SQSRecord =>
  recordOf(bodyOf(event), overrides);

/** So many of them, each an event of its own. */
export const orderRecords = (count: number): SQSRecord[] =>
  Array.from({ length: count }, () => orderRecord());

/** The same message, delivered once more: another receipt, one receive more. */
export const again = (record: SQSRecord): SQSRecord => {
  const receives = Number(record.attributes.ApproximateReceiveCount) + 1;
  return {
    ...record,
    receiptHandle: `${record.messageId}.${receives}`,
    attributes: receivedTimes(receives),
  };
};

/** System attributes of a record that has been received so many times, this one included. */
export const receivedTimes = (count: number | string): SQSRecord['attributes'] => ({
  ApproximateReceiveCount: String(count),
  SentTimestamp: '1796040000000',
  SenderId: '000000000000',
  ApproximateFirstReceiveTimestamp: '1796040000001',
});

/** Up to ten of a queue's visible messages, as the records that Lambda makes of them. */
export async function receiveRecords(
  queues: Pick<ScriptedSqs, 'client' | 'queueUrl'>,
  queue = 'stock',
): Promise<SQSRecord[]> {
  const { Messages = [] } = await queues.client().send(
    new ReceiveMessageCommand({
      QueueUrl: queues.queueUrl(queue),
      MaxNumberOfMessages: 10,
      MessageSystemAttributeNames: ['All'],
    }),
  );
  return Messages.map(({ Body = '', ReceiptHandle = '', MessageId = '', Attributes = {} }) =>
    recordOf(Body, {
      receiptHandle: ReceiptHandle,
      messageId: MessageId,
      attributes: Attributes as unknown as SQSRecord['attributes'],
    }),
  );
}

/** The event id in a record's body. */
export const eventIdOf = (record: SQSRecord): string => (JSON.parse(record.body) as { id: string }).id;

/**
 * A migrated database with a table `effect` that refuses nothing: one row each time that an effect was applied.
 * Ledger and effects are looked at from a session of the test's own.
 */
export async function createConsumerDatabase(): Promise<TestDatabase> {
  const db = await createDatabase();
  await db.sql('CREATE TABLE effect (event_id uuid NOT NULL, note text)');
  return db;
}

/**
 * Empties it for the next test, which is far quicker than a new one; sessions that a test left behind are ended.
 * A test that changes tables or settings makes a database of its own.
 */
export async function emptyConsumerDatabase(db: TestDatabase): Promise<void> {
  await terminateSessions(db);
  await db.sql('TRUNCATE applied_event, outbox_event, orders, stock_balance, effect');
}

/** The effect most tests use: one more row in `effect`. */
export async function noteEffect(
  tx: TransactionClient,
  { id }: Pick<ReceivedEvent, 'id'>,
  note = '',
): Promise<void> {
  await tx.$executeRawUnsafe('INSERT INTO effect VALUES ($1::uuid, $2)', id, note);
}

/** What another session sees, by one statement: event ids with how often each was entered and applied. */
export async function ledgerAndEffects(
  db: TestDatabase,
): Promise<{ id: string; ledger: number; effects: number }[]> {
  return db.sql(`
    SELECT event_id::text AS id, coalesce(l.n, 0)::int AS ledger, coalesce(e.n, 0)::int AS effects
    FROM (SELECT event_id, count(*) AS n FROM applied_event GROUP BY 1) l
    FULL JOIN (SELECT event_id, count(*) AS n FROM effect GROUP BY 1) e USING (event_id) ORDER BY 1`);
}

/** That each of these, and nothing else, was applied exactly once. */
export const onceEach = (...records: SQSRecord[]): { id: string; ledger: number; effects: number }[] =>
  [...new Set(records.map(eventIdOf))].toSorted().map((id) => ({ id, ledger: 1, effects: 1 }));

/** A line that the code under test reported. */
export type Reported = Record<string, unknown> & { event: string };

/** Takes over standard output and error until the test ends; `take` gets what is written from now on. */
export function captureLines(take: (line: string) => void): void {
  for (const stream of [process.stdout, process.stderr]) {
    const write = vi.spyOn(stream, 'write').mockImplementation((text) => {
      take(String(text));
      return true;
    });
    afterwards(() => write.mockRestore());
  }
}

/** @returns the lines reported from now on, as they come; those with metrics are left out. */
export function captureReports(): Reported[] {
  const lines: Reported[] = [];
  captureLines((text) => {
    const line = JSON.parse(text) as Reported;
    if ('event' in line) lines.push(line);
  });
  return lines;
}

/** A consumer at work. */
export interface TestConsumer {
  prisma: PrismaClient;
  /** Invokes the handler with one batch. @returns the ids of the messages that stay in the queue. */
  deliver: (records: readonly SQSRecord[], options?: { leftMs?: number }) => Promise<string[]>;
  /** The handler itself. */
  handler: ReturnType<typeof consumer>;
}

/** How a test's consumer differs from the usual: `stock`, orders, a pool of four, dead letters to the queue `dead`. */
export interface TestConsumerOptions<S extends Schemas = OrderSchemas> extends Partial<
  Pick<
    ConsumerOptions<S, Tx>,
    'name' | 'events' | 'effects' | 'transactionPer' | 'middlewares' | 'prisma' | 'sqs'
  >
> {
  /** The database, or the URL of a way to it. */
  db: Pick<TestDatabase, 'url'>;
  queues: ScriptedSqs;
  pool?: number;
  concurrency?: number;
  /** False: none is configured. */
  deadLetters?: boolean;
}

/** Makes a consumer over a pool of its own. */
export function startConsumer<S extends Schemas = OrderSchemas>(
  options: TestConsumerOptions<S>,
): TestConsumer {
  const { db, queues, pool = 4, concurrency = 4, deadLetters = true, name = 'stock', ...others } = options;
  const prisma = createPrisma(db.url, { max: pool });
  const config = consumerConfig({
    DATABASE_URL: db.url,
    OUTBOX_QUEUE_URL: queues.queueUrl('stock'),
    ...(deadLetters && { OUTBOX_DEAD_LETTER_QUEUE_URL: queues.queueUrl('dead') }),
    OUTBOX_CONCURRENCY: String(concurrency),
    OUTBOX_POOL_SIZE: String(Math.max(pool, concurrency)),
  });
  const handler = consumer({
    name,
    events: orderEvents,
    effects: { 'order.placed': noteEffect },
    prisma,
    config,
    sqs: queues.client(),
    // Events and effects are given together or not at all.
    ...(others as object),
  });
  return {
    prisma,
    handler,
    deliver: async (records, { leftMs } = {}) => {
      const { batchItemFailures } = await handler({ Records: [...records] }, contextWith(leftMs));
      return batchItemFailures.map(({ itemIdentifier }) => itemIdentifier);
    },
  };
}
