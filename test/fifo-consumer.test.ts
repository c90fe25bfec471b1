// A consumer of a FIFO queue: each message group in its order, a failure stops its group and no other.

import { DeleteMessageBatchCommand, SendMessageBatchCommand } from '@aws-sdk/client-sqs';
import type { SQSRecord } from 'aws-lambda';
import { randomUUID } from 'node:crypto';
import { beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import * as z from 'zod';
import { targetBody } from '../infra/local/eventbridge.ts';
import { consumer, type ConsumerOptions } from '../functions/consumer/consumer.ts';
import { consumerConfig } from '../functions/consumer/config.ts';
import { writeEnvelope } from '../functions/outbox/envelope.ts';
import { defineEvents, type ReceivedEvent } from '../functions/outbox/event.ts';
import { TerminalError } from '../functions/shared/errors.ts';
import type { PrismaClient } from '../prisma/client/client.ts';
import { afterwards } from './support/cleanup.ts';
import {
  again as deliveredAgain,
  captureReports,
  contextWith,
  createConsumerDatabase,
  gate,
  noteEffect,
  receivedTimes,
  receiveRecords,
  recordOf,
  type Reported,
  type Tx,
} from './support/consumer.ts';
import { createPrisma, type TestDatabase } from './support/database.ts';
import { accessDenied, startScriptedSqs, type ScriptedSqs } from './support/scripted-sqs.ts';
import { soon } from './support/wait.ts';

const FIFO_ARN = 'arn:aws:sqs:us-east-1:000000000000:stock.fifo';
const steps = defineEvents({ step: z.object({ label: z.string() }) });
type Steps = (typeof steps)['schemas'];

let db: TestDatabase;
let prisma: PrismaClient;
let queues: ScriptedSqs;
let reports: Reported[];
/** The endpoint's clock. */
let now: number;

beforeAll(async () => {
  db = await createConsumerDatabase();
  await db.sql('ALTER TABLE effect ADD COLUMN position bigserial');
  prisma = createPrisma(db.url, { max: 4 });
});
beforeEach(async () => {
  await empty();
  now = Date.now();
  queues = await startScriptedSqs({
    queues: { 'stock.fifo': {}, 'dead.fifo': {}, dead: {} },
    now: () => now,
  });
  reports = captureReports();
});

const empty = () => db.sql('TRUNCATE applied_event, effect');

/** The event `label`, as the relay writes it. */
const bodyOf = (label: string, eventId: string = randomUUID()): string =>
  writeEnvelope({
    eventId,
    source: '/test',
    type: 'step',
    orderingKey: label.slice(0, 2),
    payload: JSON.stringify({ label }),
    recordedAt: '2026-11-30T12:00:00.000000Z',
  });

/** A record of the FIFO queue with this body; its message group is the beginning of `label`, as in `g1 first`. */
function recordWith(body: string, label: string): SQSRecord {
  const MessageGroupId = label.slice(0, 2);
  return recordOf(body, {
    eventSourceARN: FIFO_ARN,
    attributes: { ...receivedTimes(1), MessageGroupId },
  });
}
const record = (label: string): SQSRecord => recordWith(bodyOf(label), label);
/** The same message in its group, delivered once more. */
const again = (one: SQSRecord): SQSRecord => {
  const next = deliveredAgain(one);
  return { ...next, attributes: { ...one.attributes, ...next.attributes } };
};
/** A record that no consumer can read. */
const garbage = (label: string): SQSRecord => recordWith('not json', label);

const four = () => ['g1 a', 'g1 b', 'g1 c', 'g2 a'].map(record);
/** The second of them is one that no consumer can read. */
const unreadable = () => four().with(1, garbage('g1'));

interface Options extends Partial<Pick<ConsumerOptions<Steps, Tx>, 'transactionPer'>> {
  /** What happens beside the noted effect, by label. */
  effects?: Record<string, (event: ReceivedEvent) => unknown>;
  /** Queue for dead letters; null: none is configured. */
  deadLetters?: string | null;
  concurrency?: number;
  leftMs?: number;
}

const fails = (): never => {
  throw new Error('not now');
};
const isTerminal = (): never => {
  throw new TerminalError('never');
};

/** Delivers one batch. @returns the labels (or `garbage`) of the records that stay in the queue, in order. */
async function deliver(records: readonly SQSRecord[], options: Options = {}): Promise<string[]> {
  const {
    effects = {},
    deadLetters = 'dead.fifo',
    concurrency = 4,
    leftMs,
    transactionPer = 'record',
  } = options;
  const handler = consumer({
    name: 'stock',
    events: steps,
    effects: {
      step: async (tx: Tx, event) => {
        await noteEffect(tx, event, event.data.label);
        await effects[event.data.label]?.(event);
      },
    },
    prisma,
    config: consumerConfig({
      DATABASE_URL: db.url,
      OUTBOX_QUEUE_URL: queues.queueUrl('stock.fifo'),
      ...(deadLetters !== null && { OUTBOX_DEAD_LETTER_QUEUE_URL: queues.queueUrl(deadLetters) }),
      OUTBOX_CONCURRENCY: String(concurrency),
    }),
    sqs: queues.client(),
    transactionPer,
  });
  const { batchItemFailures } = await soon(handler({ Records: [...records] }, contextWith(leftMs)), {
    within: 20_000,
    message: 'the batch',
  });
  const failed = new Set(batchItemFailures.map(({ itemIdentifier }) => itemIdentifier));
  expect(failed.size).toBe(batchItemFailures.length);
  return records.filter(({ messageId }) => failed.has(messageId)).map(labelOf);
}

const labelOf = ({ body }: Pick<SQSRecord, 'body'>): string =>
  body.startsWith('{') ? (JSON.parse(body) as { data: { label: string } }).data.label : 'garbage';

/** Labels of the effects that were committed, in the order in which they were applied. */
const applied = async (): Promise<string[]> =>
  (await db.sql('SELECT note FROM effect ORDER BY position')).map(({ note }) => String(note));

/** The same, by group, since groups run side by side. */
async function appliedByGroup(): Promise<Record<string, string[] | undefined>> {
  return Object.groupBy(await applied(), (label) => label.slice(0, 2));
}

describe.each(['record', 'batch'] as const)('with a transaction per %s', (transactionPer) => {
  // Case C11.
  test('a failure stops its group, which is reported from there on, and no other', async () => {
    const batch = ['g1 a', 'g1 b', 'g2 a', 'g2 b'].map(record);
    expect(await deliver(batch, { transactionPer, effects: { 'g1 a': fails } })).toEqual(['g1 a', 'g1 b']);
    expect(await applied()).toEqual(['g2 a', 'g2 b']);
    if (transactionPer === 'batch') {
      expect(reports).toContainEqual(expect.objectContaining({ event: 'consumer.fell_back', records: 4 }));
    }
  });

  test('a failure in the middle keeps what its group did before it, once', async () => {
    const batch = ['g1 a', 'g2 a', 'g1 b', 'g1 c', 'g2 b', 'g1 d'].map(record);
    expect(await deliver(batch, { transactionPer, effects: { 'g1 b': fails } })).toEqual([
      'g1 b',
      'g1 c',
      'g1 d',
    ]);
    expect(await appliedByGroup()).toEqual({ g1: ['g1 a'], g2: ['g2 a', 'g2 b'] });

    expect(await deliver(batch.map(again), { transactionPer })).toEqual([]);
    expect(await appliedByGroup()).toEqual({ g1: ['g1 a', 'g1 b', 'g1 c', 'g1 d'], g2: ['g2 a', 'g2 b'] });
  });

  test('groups that are mixed in the batch are each applied in their order', async () => {
    const labels = ['g1 a', 'g2 a', 'g3 a', 'g1 b', 'g3 b', 'g2 b', 'g2 c', 'g1 c', 'g3 c', 'g1 d'];
    expect(await deliver(labels.map(record), { transactionPer })).toEqual([]);
    expect(await appliedByGroup()).toEqual(Object.groupBy(labels, (label) => label.slice(0, 2)));
    const [transactions] = await db.sql<{ n: number }>('SELECT count(DISTINCT xmin::text) AS n FROM effect');
    expect(transactions?.n).toBe(transactionPer === 'batch' ? 1 : 10);
  });

  test('a duplicate inside a group is applied once, and holds up nothing', async () => {
    const id = randomUUID();
    const twice = () => recordWith(bodyOf('g1 a', id), 'g1 a');
    const batch = [twice(), twice(), record('g1 b'), record('g2 a')];
    expect(await deliver(batch, { transactionPer })).toEqual([]);
    expect(await appliedByGroup()).toEqual({ g1: ['g1 a', 'g1 b'], g2: ['g2 a'] });
  });

  test('the duplicate of a failure is not applied in its stead', async () => {
    const id = randomUUID();
    const twice = () => recordWith(bodyOf('g1 a', id), 'g1 a');
    let tries = 0;
    // In a transaction per batch the first try is the one that falls back.
    const atFirst = () => void ((tries += 1) <= (transactionPer === 'batch' ? 2 : 1) && fails());
    const batch = [twice(), twice(), record('g1 b')];
    expect(await deliver(batch, { transactionPer, effects: { 'g1 a': atFirst } })).toEqual([
      'g1 a',
      'g1 a',
      'g1 b',
    ]);
    expect(await applied()).toEqual([]);
  });

  describe('a terminal record', () => {
    const effects = { 'g1 b': isTerminal };

    test('without a dead-letter queue of ours holds its group until the redrive policy moves it', async () => {
      expect(await deliver(four(), { transactionPer, effects, deadLetters: null })).toEqual(['g1 b', 'g1 c']);
      expect(await appliedByGroup()).toEqual({ g1: ['g1 a'], g2: ['g2 a'] });
    });

    test('leaves its group for the dead-letter queue, and the group goes on', async () => {
      const records = four();
      expect(await deliver(records, { transactionPer, effects })).toEqual([]);
      expect(await appliedByGroup()).toEqual({ g1: ['g1 a', 'g1 c'], g2: ['g2 a'] });
      expect(queues.stored('dead.fifo')).toMatchObject([
        {
          body: records[1]?.body,
          groupId: 'g1',
          deduplicationId: records[1]?.messageId,
          attributes: { 'outbox-reason': { StringValue: 'TerminalError: never' } },
        },
      ]);
    });

    test('that the dead-letter queue does not take stays, and so does what comes after it', async () => {
      queues.next(accessDenied());
      expect(await deliver(four(), { transactionPer, effects })).toEqual(['g1 b', 'g1 c']);
      expect(await appliedByGroup()).toEqual({ g1: ['g1 a'], g2: ['g2 a'] });
      expect(queues.stored('dead.fifo')).toEqual([]);
    });

    test('that no consumer can read is no different', async () => {
      expect(await deliver(unreadable(), { transactionPer, deadLetters: null })).toEqual(['garbage', 'g1 c']);
      expect(await appliedByGroup()).toEqual({ g1: ['g1 a'], g2: ['g2 a'] });
      await empty();
      expect(await deliver(unreadable(), { transactionPer })).toEqual([]);
      expect(await appliedByGroup()).toEqual({ g1: ['g1 a', 'g1 c'], g2: ['g2 a'] });
      expect(queues.stored('dead.fifo')).toMatchObject([{ body: 'not json', groupId: 'g1' }]);
    });

    test('that waits behind a failure is neither applied nor buried out of its turn', async () => {
      const records = [record('g1 a'), garbage('g1'), record('g1 c')];
      expect(await deliver(records, { transactionPer, effects: { 'g1 a': fails } })).toEqual([
        'g1 a',
        'garbage',
        'g1 c',
      ]);
      expect(queues.stored('dead.fifo')).toEqual([]);
    });
  });

  test('an event that came over EventBridge is in its group like any other', async () => {
    const wrapped = recordWith(
      targetBody({
        Source: '/test',
        DetailType: 'step',
        Detail: bodyOf('g1 a'),
        Time: 1_796_040_000,
        EventBusName: 'default',
        EventId: randomUUID(),
      }),
      'g1 a',
    );
    expect(await deliver([wrapped, record('g1 b')], { transactionPer })).toEqual([]);
    expect(await applied()).toEqual(['g1 a', 'g1 b']);
  });
});

describe('dead letters', () => {
  test('of a record that was buried twice are one', async () => {
    const records = [record('g1 a')];
    const effects = { 'g1 a': isTerminal };
    await deliver(records, { effects });
    await deliver(records.map(again), { effects });
    expect(queues.stored('dead.fifo')).toHaveLength(1);
  });

  test('of several records of a group keep their order and their group', async () => {
    const records = ['g1 a', 'g2 a', 'g1 b', 'g1 c'].map(record);
    await deliver(records, {
      effects: Object.fromEntries(records.map((each) => [labelOf(each), isTerminal])),
    });
    const buried = queues.stored('dead.fifo');
    expect(Object.groupBy(buried.map(labelOf), (label) => label.slice(0, 2))).toEqual({
      g1: ['g1 a', 'g1 b', 'g1 c'],
      g2: ['g2 a'],
    });
    expect(buried.map(({ groupId }) => groupId)).toEqual(buried.map((letter) => labelOf(letter).slice(0, 2)));
  });

  test('may go to a standard queue', async () => {
    expect(await deliver([record('g1 a')], { effects: { 'g1 a': isTerminal }, deadLetters: 'dead' })).toEqual(
      [],
    );
    expect(queues.stored('dead')).toMatchObject([{ deduplicationId: undefined }]);
  });
});

test('groups run side by side: one that waits does not keep the others waiting', async () => {
  const [first, second] = [gate(), gate()];
  const began: string[] = [];
  const effects = {
    'g1 a': () => {
      began.push('g1 a');
      second.resolve();
      return first.promise;
    },
    'g1 b': () => void began.push('g1 b'),
    'g2 a': async () => {
      await second.promise;
      began.push('g2 a');
    },
    'g2 b': () => {
      began.push('g2 b');
      first.resolve();
    },
  };
  const batch = ['g1 a', 'g1 b', 'g2 a', 'g2 b'].map(record);
  expect(await deliver(batch, { effects, concurrency: 2 })).toEqual([]);
  expect(began).toEqual(['g1 a', 'g2 a', 'g2 b', 'g1 b']);
  expect(await appliedByGroup()).toEqual({ g1: ['g1 a', 'g1 b'], g2: ['g2 a', 'g2 b'] });
});

test('no more groups run at once than connections are meant for', async () => {
  let [running, most] = [0, 0];
  const two = gate();
  const effect = async () => {
    most = Math.max(most, (running += 1));
    if (running === 2) two.resolve();
    await two.promise;
    // Others could begin here.
    await prisma.$queryRaw`SELECT 1`;
    running -= 1;
  };
  const labels = ['g1', 'g2', 'g3', 'g4', 'g5'].flatMap((group) => [`${group} a`, `${group} b`]);
  const effects = Object.fromEntries(labels.map((label) => [label, effect]));
  expect(await deliver(labels.map(record), { effects, concurrency: 2 })).toEqual([]);
  expect(most).toBe(2);
});

// Case C6.
test('when time runs out in the middle of a group the rest is handed back untouched, to come again at once', async () => {
  let late = 0;
  const clock = performance.now.bind(performance);
  const spy = vi.spyOn(performance, 'now').mockImplementation(() => clock() + late);
  afterwards(() => spy.mockRestore());
  const batch = ['g1 a', 'g1 b', 'g1 c', 'g2 a'].map(record);
  const effects = { 'g1 b': () => void (late = 28_900) };
  expect(await deliver(batch, { effects, concurrency: 1, leftMs: 30_000 })).toEqual(['g1 c', 'g2 a']);
  expect(await applied()).toEqual(['g1 a', 'g1 b']);
  const [visibility] = queues.calls.filter(({ action }) => action === 'ChangeMessageVisibilityBatch');
  expect(visibility?.entries).toMatchObject([
    { ReceiptHandle: batch[2]?.receiptHandle, VisibilityTimeout: 0 },
    { ReceiptHandle: batch[3]?.receiptHandle, VisibilityTimeout: 0 },
  ]);
  expect(reports).toContainEqual(
    expect.objectContaining({ event: 'consumer.batch', applied: 2, unstarted: 2 }),
  );
});

test('a group whose record fails again and again is applied in order in the end, and the others meanwhile', async () => {
  const sqs = queues.client();
  const QueueUrl = queues.queueUrl('stock.fifo');
  const labels = ['g1 a', 'g1 b', 'g1 c', 'g2 a', 'g1 d', 'g2 b'];
  const Entries = labels.map((label, index) => ({
    Id: String(index),
    MessageBody: bodyOf(label),
    MessageGroupId: label.slice(0, 2),
    MessageDeduplicationId: label.replace(' ', ''),
  }));
  await sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
  let failures = 0;
  const effects = { 'g1 b': () => void ((failures += 1) <= 3 && fails()) };
  const stayed: string[][] = [];
  for (let batches = 0; batches < 6 && (await applied()).length < labels.length; batches += 1) {
    const received = await receiveRecords(queues, 'stock.fifo');
    const records = received.map((one) => ({ ...one, eventSourceARN: FIFO_ARN }));
    const stay = new Set(await deliver(records, { effects }));
    const done = records.filter((each) => !stay.has(labelOf(each)));
    if (done.length > 0) {
      const Entries = done.map(({ receiptHandle }, index) => ({
        Id: String(index),
        ReceiptHandle: receiptHandle,
      }));
      await sqs.send(new DeleteMessageBatchCommand({ QueueUrl, Entries }));
    }
    stayed.push([...stay]);
    // Nothing of the group may come before the one that failed.
    expect(await receiveRecords(queues, 'stock.fifo')).toEqual([]);
    now += 900_000;
  }
  expect(stayed).toEqual([...Array.from({ length: 3 }, () => ['g1 b', 'g1 c', 'g1 d']), []]);
  expect(await appliedByGroup()).toEqual(Object.groupBy(labels, (label) => label.slice(0, 2)));
});
