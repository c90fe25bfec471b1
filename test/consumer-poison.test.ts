// Promise 5, poison stays alone: a bad record never blocks, fails or re-sends its neighbours, and is never lost.

import { SendMessageCommand } from '@aws-sdk/client-sqs';
import type { SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import type { MiddlewareObj } from '@middy/core';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { defineEvents } from '../functions/outbox/event.ts';
import { TerminalError } from '../functions/shared/errors.ts';
import { afterwards } from './support/cleanup.ts';
import {
  again,
  captureReports,
  contextWith,
  createConsumerDatabase,
  emptyConsumerDatabase,
  eventIdOf,
  gate,
  ledgerAndEffects,
  noteEffect,
  onceEach,
  orderRecord,
  orderRecords,
  receivedTimes,
  receiveRecords,
  recordOf,
  startConsumer,
  type Reported,
  type TestConsumerOptions,
  type Tx,
} from './support/consumer.ts';
import { openSession, type TestDatabase } from './support/database.ts';
import { sessions } from './support/knobs.ts';
import * as sqs from './support/scripted-sqs.ts';
import { soon, until } from './support/wait.ts';

let db: TestDatabase;
let queues: sqs.ScriptedSqs;
let reports: Reported[];
/** The queues' clock, in milliseconds. */
let clock: number;

beforeAll(async () => {
  db = await createConsumerDatabase();
});

beforeEach(async () => {
  await emptyConsumerDatabase(db);
  clock = Date.parse('2026-11-30T12:00:00Z');
  const stock = { visibilityTimeoutSeconds: 185 };
  queues = await sqs.startScriptedSqs({ queues: { stock, dead: {} }, now: () => clock });
  reports = captureReports();
});

type Options = Partial<TestConsumerOptions>;
const start = (options: Options = {}) => startConsumer({ db, queues, ...options });

/** An effect that notes every event, and then does something else for one record's. */
const except = (poison: SQSRecord, act: () => unknown): Options => ({
  effects: {
    'order.placed': async (tx, event) => {
      await noteEffect(tx, event);
      if (event.id === eventIdOf(poison)) await act();
    },
  },
});

const deadLetters = () =>
  queues.stored('dead').map(({ body, attributes }) => ({
    body,
    reason: attributes['outbox-reason']?.StringValue ?? '',
    of: attributes['outbox-message-id']?.StringValue,
  }));
const visibilityChanges = () =>
  queues.calls
    .filter(({ action }) => action === 'ChangeMessageVisibilityBatch')
    .flatMap(({ entries }) => entries as unknown as { ReceiptHandle: string; VisibilityTimeout: number }[]);
const lastBatch = () => reports.findLast(({ event }) => event === 'consumer.batch');

function bodyWith(attributes: Record<string, unknown>): string {
  const whole = JSON.parse(orderRecord().body) as Record<string, unknown>;
  return JSON.stringify({ ...whole, ...attributes });
}

const withoutId = () => recordOf('{"specversion":"1.0","source":"/orders","type":"order.placed","data":{}}');

type Middleware = MiddlewareObj<SQSEvent, SQSBatchResponse>;
const nothingFailed = (): SQSBatchResponse => ({ batchItemFailures: [] });

// C1
describe('one bad record among good ones', () => {
  test('goes to the dead-letter queue alone; the goods are applied once and nothing is reported', async () => {
    const goods = orderRecords(2) as [SQSRecord, SQSRecord];
    const bad = [recordOf('not json'), recordOf('null'), withoutId()];
    const { deliver } = start();
    expect(await deliver([goods[0], ...bad, goods[1]])).toEqual([]);
    expect(await ledgerAndEffects(db)).toEqual(onceEach(...goods));
    expect(deadLetters()).toEqual([
      { body: 'not json', reason: 'InvalidEnvelope: body is not JSON', of: bad[0]?.messageId },
      { body: 'null', reason: 'InvalidEnvelope: body is not a JSON object', of: bad[1]?.messageId },
      { body: bad[2]?.body, reason: 'InvalidEnvelope: id: expected a UUID', of: bad[2]?.messageId },
    ]);
    expect(lastBatch()).toMatchObject({ records: 5, applied: 2, terminal: 3 });
  });

  test('is reported alone when there is no dead-letter queue to send it to', async () => {
    const goods = orderRecords(2) as [SQSRecord, SQSRecord];
    const bad = [recordOf('not json'), recordOf('null'), withoutId()];
    const { deliver } = start({ deadLetters: false });
    expect(await deliver([goods[0], ...bad, goods[1]])).toEqual(bad.map(({ messageId }) => messageId));
    expect(await ledgerAndEffects(db)).toEqual(onceEach(...goods));
    expect(queues.sends()).toEqual([]);
  });

  test.each([
    ['empty', ''],
    ['an array', '[]'],
    ['a number', '1e999'],
    ['a string', '"{}"'],
    ['of another specversion', '{"specversion":"0.3","id":"a","source":"b","type":"c"}'],
    ['whose id is no UUID', '{"specversion":"1.0","id":"EVENT-23","source":"/orders","type":"order.placed"}'],
    ['whose source has a NUL, which PostgreSQL refuses', bodyWith({ source: 'a\u0000b' })],
    ['whose source is a lone surrogate', bodyWith({ source: '\ud800' })],
    ['whose type is missing', bodyWith({ type: undefined })],
    ['whose type is an object', bodyWith({ type: { toString: 'order.placed' } })],
    ['nested ten thousand deep', '['.repeat(10_000)],
  ])('a body %s is terminal and touches nobody', async (_, body) => {
    const [good] = orderRecords(1) as [SQSRecord];
    const bad = recordOf(body);
    const failed = await start().deliver([bad, good]);
    expect(await ledgerAndEffects(db)).toEqual(onceEach(good));
    // SQS takes no empty message, so an empty body can only stay where it is.
    expect(failed).toEqual(body === '' ? [bad.messageId] : []);
    expect(deadLetters().map(({ of }) => of)).toEqual(body === '' ? [] : [bad.messageId]);
    expect(lastBatch()).toMatchObject({ applied: 1, terminal: 1 });
  });

  test.each(['record', 'batch'] as const)(
    'whose effect throws a TypeError is reported alone (transaction per %s)',
    async (transactionPer) => {
      const records = orderRecords(3) as [SQSRecord, SQSRecord, SQSRecord];
      const poison = records[1];
      const effect = except(poison, () => (undefined as unknown as string).length);
      expect(await start({ ...effect, transactionPer }).deliver(records)).toEqual([poison.messageId]);
      expect(await ledgerAndEffects(db)).toEqual(onceEach(records[0], records[2]));
    },
  );

  const cyclic = new Error('round');
  cyclic.cause = cyclic;
  test.each([
    ['undefined', undefined],
    ['null', null],
    ['an empty string', ''],
    ['a text', 'no error'],
    ['a symbol', Symbol('no error')],
    ['a bigint', 1n],
    ['an error that is its own cause', cyclic],
    ['an error without a message', new Error()],
    ['an object without a prototype', Object.create(null)],
    [
      'an error whose message is no text',
      Object.assign(new Error(), { message: Object.create(null) as string }),
    ],
    [
      'an error that throws when it is read',
      Object.defineProperty(new Error(), 'message', {
        get: () => {
          throw new Error('no message');
        },
      }),
    ],
  ])('whose effect throws %s is reported alone', async (_, thrown) => {
    const records = orderRecords(2) as [SQSRecord, SQSRecord];
    const { deliver } = start(
      except(records[0], () => {
        throw thrown;
      }),
    );
    expect(await deliver(records)).toEqual([records[0].messageId]);
    expect(await ledgerAndEffects(db)).toEqual(onceEach(records[1]));
    expect(reports).toContainEqual(
      expect.objectContaining({ messageId: records[0].messageId, reason: expect.stringMatching(/./) }),
    );
  });

  test.each([
    ['record', 3_000],
    ['batch', 4_500],
  ] as const)(
    'whose effect never returns costs its neighbours nothing: the answer comes before the time is over (transaction per %s)',
    async (transactionPer, leftMs) => {
      const records = orderRecords(3) as [SQSRecord, SQSRecord, SQSRecord];
      const never = gate();
      const { deliver } = start({ ...except(records[1], () => never.promise), transactionPer });
      const failed = await soon(deliver(records, { leftMs }), { within: leftMs });
      expect(failed).toEqual([records[1].messageId]);
      expect(await ledgerAndEffects(db)).toEqual(onceEach(records[0], records[2]));
    },
  );

  test('whose effect waits for a row that somebody keeps locked is reported alone, and applies nothing later', async () => {
    const records = orderRecords(3) as [SQSRecord, SQSRecord, SQSRecord];
    const { deliver } = start({
      effects: {
        'order.placed': async (tx, event) => {
          await noteEffect(tx, event);
          if (event.id === eventIdOf(records[1]))
            await tx.$executeRaw`INSERT INTO stock_balance VALUES ('SKU-17', 5)`;
        },
      },
    });
    // After the consumer, so that it goes before it when the test fails.
    const somebody = await openSession(db.url);
    await somebody.query("BEGIN; INSERT INTO stock_balance VALUES ('SKU-17', 10)");
    const failed = await soon(deliver(records, { leftMs: 3_000 }), { within: 3_000 });
    expect(failed).toEqual([records[1].messageId]);
    await somebody.query('ROLLBACK');
    await until(async () => (await sessions(db)).every(({ state }) => state === 'idle'), {
      within: 15_000,
      message: 'the transaction has ended',
    });
    expect(await ledgerAndEffects(db)).toEqual(onceEach(records[0], records[2]));
    expect(await db.sql('SELECT * FROM stock_balance')).toEqual([]);
  });
});

// C2
describe('a middleware', () => {
  test.each<[string, Middleware]>([
    ['takes the record out of the event', { before: ({ event }) => void event.Records.splice(0, 1) }],
    ['throws before the batch', { before: () => Promise.reject(new Error('no secret')) }],
    ['answers before the batch', { before: () => nothingFailed() }],
    ['answers after the batch', { after: () => nothingFailed() }],
    ['replaces the answer', { after: (request) => void (request.response = nothingFailed()) }],
    [
      'empties the list of failures',
      { after: ({ response }) => void (response ? (response.batchItemFailures = []) : undefined) },
    ],
    [
      'takes a failure out of the list',
      { after: ({ response }) => void response?.batchItemFailures.splice(0, 1) },
    ],
    [
      'swallows an error of another',
      { before: () => Promise.reject(new Error('no secret')), onError: () => nothingFailed() },
    ],
  ])('that %s does not have the failed record deleted', async (_, middleware) => {
    const records = orderRecords(2) as [SQSRecord, SQSRecord];
    const effect = except(records[0], () => Promise.reject(new Error('not now')));
    const { handler } = start({ ...effect, middlewares: [middleware] });
    const answer = await handler({ Records: records }, contextWith()).then(
      ({ batchItemFailures }) => batchItemFailures.map(({ itemIdentifier }) => itemIdentifier),
      () => 'the whole batch',
    );
    expect(['the whole batch', [records[0].messageId]]).toContainEqual(answer);
  });

  test('that only looks on changes nothing', async () => {
    const seen: string[] = [];
    const records = orderRecords(2) as [SQSRecord, SQSRecord];
    const { deliver } = start({
      ...except(records[0], () => Promise.reject(new Error('not now'))),
      middlewares: [{ before: () => void seen.push('before'), after: () => void seen.push('after') }],
    });
    expect(await deliver(records)).toEqual([records[0].messageId]);
    expect(seen).toEqual(['before', 'after']);
  });
});

describe('an event that is none of SQS', () => {
  test.each([
    ['nothing', undefined],
    ['a schedule', { source: 'aws.events', detail: {} }],
    ['records of a stream', { Records: [{ eventSource: 'aws:kinesis', kinesis: { data: '' } }] }],
    ['a hole among the records', { Records: [orderRecord(), null] }],
  ])('%s is refused loudly, not answered with success', async (_, event) => {
    const { handler } = start();
    await expect(handler(event as unknown as SQSEvent, contextWith())).rejects.toThrow(
      /consumer stock: expected an SQS event/,
    );
    expect(await ledgerAndEffects(db)).toEqual([]);
  });

  test('an empty batch is done at once', async () => {
    expect(await start().deliver([])).toEqual([]);
  });
});

// C5, last sentence: throttled deliveries count as receives too.
test('a record delivered for the first time to a handler, but received five times, is applied as any other', async () => {
  const record = orderRecord({}, { attributes: receivedTimes(5) });
  expect(await start().deliver([record])).toEqual([]);
  expect(await ledgerAndEffects(db)).toEqual(onceEach(record));
  expect(deadLetters()).toEqual([]);
});

// C6, scaled down: ten records of 2 s with 12 s left become ten of 0.4 s with 2.4 s left.
describe('time runs short', () => {
  const slowly: Options = {
    effects: {
      'order.placed': async (tx, event) => {
        await sleep(400);
        await noteEffect(tx, event);
      },
    },
  };

  test.each([
    ['one at a time', 2_400, { concurrency: 1 }],
    ['two at a time', 2_400, { concurrency: 2 }],
    ['in one transaction', 3_200, { transactionPer: 'batch' }],
  ] as const)(
    '%s: the answer comes in time, what was done is done, and what was not begun comes again at once',
    async (_, leftMs, options) => {
      const records = orderRecords(10);
      const { deliver } = start({ ...slowly, ...options });
      const failed = await soon(deliver(records, { leftMs }), { within: leftMs });
      const done = records.filter(({ messageId }) => !failed.includes(messageId));
      expect(await ledgerAndEffects(db)).toEqual(onceEach(...done));
      const unstarted = Number(lastBatch()?.['unstarted']);
      expect(lastBatch()).toMatchObject({ applied: done.length });
      expect(done.length).toBeGreaterThan(0);
      expect(unstarted).toBeGreaterThan(0);
      const atOnce = visibilityChanges().filter(({ VisibilityTimeout }) => VisibilityTimeout === 0);
      expect(atOnce).toHaveLength(unstarted);
    },
  );

  test.each(['record', 'batch'] as const)(
    'before the first record: all come again (transaction per %s)',
    async (transactionPer) => {
      const records = orderRecords(3);
      const failed = await start({ transactionPer }).deliver(records, { leftMs: 900 });
      expect(failed).toEqual(records.map(({ messageId }) => messageId));
      expect(await ledgerAndEffects(db)).toEqual([]);
    },
  );

  test.each([
    ['dead-letter queue', 'SendMessage'],
    ['queue asked for a later redelivery', 'ChangeMessageVisibilityBatch'],
  ])('a %s that never answers does not take the batch with it', async (_, silent) => {
    const good = orderRecord();
    const bad = recordOf('not json');
    const failing = orderRecord();
    queues.on(({ action }) => (action === silent ? sqs.stall() : undefined));
    const { deliver } = start(except(failing, () => Promise.reject(new Error('not now'))));
    const failed = await soon(deliver([good, bad, failing], { leftMs: 2_500 }), { within: 2_500 });
    expect(failed.toSorted()).toEqual(
      (silent === 'SendMessage' ? [bad, failing] : [failing]).map(({ messageId }) => messageId).toSorted(),
    );
    expect(await ledgerAndEffects(db)).toEqual(onceEach(good));
  });
});

describe('a terminal record', () => {
  test('is in the dead-letter queue after its first receive, as it was, with its reason, and is not reported', async () => {
    const record = orderRecord();
    const { deliver } = start(
      except(record, () => {
        throw new TerminalError('credit card\nwas\tstolen', { cause: new RangeError('number 4') });
      }),
    );
    expect(await deliver([record])).toEqual([]);
    expect(await ledgerAndEffects(db)).toEqual([]);
    expect(queues.stored('dead')).toMatchObject([{ body: record.body }]);
    expect(queues.stored('dead')[0]?.attributes).toEqual({
      'outbox-reason': {
        DataType: 'String',
        StringValue: 'TerminalError: credit card was stolen < RangeError: number 4',
      },
      'outbox-consumer': { DataType: 'String', StringValue: 'stock' },
      'outbox-message-id': { DataType: 'String', StringValue: record.messageId },
    });
    expect(visibilityChanges()).toEqual([]);
  });

  test("of another copy of the package is known by its error's name", async () => {
    const record = orderRecord();
    const { deliver } = start(
      except(record, () => {
        throw Object.assign(new Error('gone'), { name: 'TerminalError' });
      }),
    );
    expect(await deliver([record])).toEqual([]);
    expect(deadLetters()).toHaveLength(1);
  });

  test('leaves its neighbours in the same transaction per batch applied', async () => {
    const records = orderRecords(3) as [SQSRecord, SQSRecord, SQSRecord];
    const terminal = except(records[1], () => Promise.reject(new TerminalError('no')));
    expect(await start({ ...terminal, transactionPer: 'batch' }).deliver(records)).toEqual([]);
    expect(await ledgerAndEffects(db)).toEqual(onceEach(records[0], records[2]));
    expect(deadLetters()).toMatchObject([{ of: records[1].messageId }]);
  });

  test.each<[string, sqs.Answer]>([
    ['is down', sqs.httpError(503)],
    ['resets the connection', sqs.reset()],
    ['does not exist', sqs.queueDoesNotExist()],
    ['may not be written to', sqs.accessDenied()],
    ['throttles', sqs.throttled()],
  ])('stays in its queue while the dead-letter queue %s', async (_, answer) => {
    const good = orderRecord();
    const bad = recordOf('not json');
    const { deliver } = start();
    queues.on(({ queue }) => (queue === 'dead' ? answer : undefined));
    expect(await deliver([bad, good])).toEqual([bad.messageId]);
    expect(await ledgerAndEffects(db)).toEqual(onceEach(good));
    expect(reports).toContainEqual(expect.objectContaining({ event: 'consumer.dead_letter_failed' }));
    queues.on();
    expect(await deliver([again(bad)])).toEqual([]);
    expect(deadLetters()).toHaveLength(1);
  });

  test('stays in its queue when SQS has taken it but the answer was lost: twice is better than never', async () => {
    const bad = recordOf('not json');
    queues.next(sqs.storeThenReset());
    expect(await start().deliver([bad])).toEqual([bad.messageId]);
    expect(deadLetters()).toHaveLength(1);
  });

  test('whose own attributes are many keeps them, as many as SQS has room for', async () => {
    const own = Object.fromEntries(
      Array.from({ length: 9 }, (_, n) => [`own-${n}`, { dataType: 'String.custom', stringValue: `${n}` }]),
    );
    const record = recordOf('not json', { messageAttributes: own });
    expect(await start().deliver([record])).toEqual([]);
    const { attributes = {} } = queues.stored('dead')[0] ?? {};
    expect(Object.keys(attributes)).toHaveLength(10);
    expect(attributes['own-6']).toEqual({ DataType: 'String.custom', StringValue: '6' });
    expect(attributes['outbox-reason']).toBeDefined();
  });

  test('keeps numbers and bytes among its own attributes, and does not keep an older reason', async () => {
    const lists = { stringListValues: [], binaryListValues: [] };
    const record = recordOf('not json', {
      messageAttributes: {
        priority: { ...lists, dataType: 'Number', stringValue: '7' },
        thumbnail: { ...lists, dataType: 'Binary', binaryValue: Buffer.from([0, 255]).toString('base64') },
        'outbox-reason': { ...lists, dataType: 'String', stringValue: 'of its last redrive' },
      },
    });
    expect(await start().deliver([record])).toEqual([]);
    expect(queues.stored('dead')[0]?.attributes).toMatchObject({
      priority: { DataType: 'Number', StringValue: '7' },
      thumbnail: { DataType: 'Binary', BinaryValue: 'AP8=' },
      'outbox-reason': { StringValue: 'InvalidEnvelope: body is not JSON' },
    });
  });

  test.each([
    ['control characters', 'bell \u0007, NUL \u0000, \uFFFF and half of \ud83d'],
    ['no text at all', ''],
    ['a text of two megabytes', 'é'.repeat(1_000_000)],
  ])('whose reason has %s is still taken by SQS', async (_, message) => {
    const record = orderRecord();
    const { deliver } = start(except(record, () => Promise.reject(new TerminalError(message))));
    expect(await deliver([record])).toEqual([]);
    expect(deadLetters()).toMatchObject([
      { of: record.messageId, reason: expect.stringMatching(/^TerminalError/) },
    ]);
  });

  test('whose data is refused with a message of megabytes is still taken by SQS', async () => {
    const refusing = defineEvents({
      'order.placed': z.unknown().refine(() => false, { error: 'no '.repeat(700_000) }),
    });
    const record = orderRecord();
    const { deliver } = startConsumer({
      db,
      queues,
      events: refusing,
      effects: { 'order.placed': noteEffect },
    });
    expect(await deliver([record])).toEqual([]);
    expect(deadLetters()).toMatchObject([
      { of: record.messageId, reason: expect.stringMatching(/^InvalidPayload: payload: no /) },
    ]);
  });
});

describe('a record that may succeed later', () => {
  test('waits longer after every receive, from the base up to the maximum', async () => {
    vi.spyOn(Math, 'random').mockReturnValue(0.999_999);
    afterwards(() => vi.restoreAllMocks());
    const record = orderRecord();
    const { deliver } = start(except(record, () => Promise.reject(new Error('not now'))));
    const receives = [1, 2, 3, 4, 5, 10, 1_100];
    for (const n of receives) await deliver([{ ...record, attributes: receivedTimes(n) }]);
    expect(visibilityChanges().map(({ VisibilityTimeout }) => VisibilityTimeout)).toEqual([
      4, 8, 16, 32, 64, 900, 900,
    ]);
  });

  test('waits at least the base, however the dice fall, and whatever the receive count says', async () => {
    vi.spyOn(Math, 'random').mockReturnValue(0);
    afterwards(() => vi.restoreAllMocks());
    const record = orderRecord();
    const { deliver } = start(except(record, () => Promise.reject(new Error('not now'))));
    for (const count of ['1', '1100', '', 'many', '-3'])
      await deliver([{ ...record, attributes: receivedTimes(count) }]);
    expect(visibilityChanges().map(({ VisibilityTimeout }) => VisibilityTimeout)).toEqual([2, 2, 2, 2, 2]);
  });

  test('is reported alone when its receive count is no text at all', async () => {
    const records = orderRecords(2) as [SQSRecord, SQSRecord];
    const attributes = { ApproximateReceiveCount: { valueOf: 1, toString: 2 } } as unknown;
    records[0] = { ...records[0], attributes: attributes as SQSRecord['attributes'] };
    const { deliver } = start(except(records[0], () => Promise.reject(new Error('not now'))));
    expect(await deliver(records)).toEqual([records[0].messageId]);
    expect(await ledgerAndEffects(db)).toEqual(onceEach(records[1]));
  });

  test('is delivered again after that time, not after the whole visibility timeout of 185 s', async () => {
    await queues
      .client()
      .send(new SendMessageCommand({ QueueUrl: queues.queueUrl('stock'), MessageBody: orderRecord().body }));
    const [record] = (await receiveRecords(queues)) as [SQSRecord];
    const { deliver } = start(except(record, () => Promise.reject(new Error('not now'))));
    expect(await deliver([record])).toEqual([record.messageId]);
    expect(await receiveRecords(queues)).toEqual([]);
    clock += 5_000;
    expect((await receiveRecords(queues)).map(({ messageId }) => messageId)).toEqual([record.messageId]);
  });

  test('is reported all the same when its delay could not be set', async () => {
    queues.on(() => sqs.httpError(503));
    const records = orderRecords(2) as [SQSRecord, SQSRecord];
    const { deliver } = start(except(records[0], () => Promise.reject(new Error('not now'))));
    expect(await deliver(records)).toEqual([records[0].messageId]);
    expect(reports).toContainEqual(expect.objectContaining({ event: 'consumer.delay_lost', records: 1 }));
  });
});

describe('event types', () => {
  test.each(['order.lost', '__proto__', 'constructor', 'toString', 'hasOwnProperty'])(
    'an event of type %s, which has no effect, is terminal with the reason',
    async (type) => {
      const record = orderRecord({ type });
      expect(await start().deliver([record])).toEqual([]);
      expect(deadLetters()).toMatchObject([{ reason: `NoEffect: no effect for event type "${type}"` }]);
      expect(await ledgerAndEffects(db)).toEqual([]);
    },
  );

  test('a declared type whose effect is left out, or undefined, is terminal too', async () => {
    const records = orderRecords(1);
    const none = start({ effects: {} });
    expect(await none.deliver(records)).toEqual([]);
    expect(deadLetters()).toMatchObject([{ reason: 'NoEffect: no effect for event type "order.placed"' }]);
  });

  test('names like __proto__ and constructor work as declared types', async () => {
    const schema = z.object({ n: z.number() });
    const odd = defineEvents({ constructor: schema, ['__proto__']: schema });
    const { deliver } = startConsumer({
      db,
      queues,
      events: odd,
      effects: { constructor: noteEffect, ['__proto__']: noteEffect },
    });
    const records = ['constructor', '__proto__'].map((type) => orderRecord({ type, data: { n: 1 } }));
    expect(await deliver(records)).toEqual([]);
    expect(await ledgerAndEffects(db)).toEqual(onceEach(...records));
  });

  test('data that its schema refuses is terminal, naming the field', async () => {
    const record = orderRecord({ data: { orderId: 'ORDER-1', sku: 'SKU-17', quantity: 0 } });
    expect(await start().deliver([record])).toEqual([]);
    expect(deadLetters()).toMatchObject([
      { reason: expect.stringMatching(/^InvalidPayload: payload\.quantity: /) },
    ]);
  });

  test("what a schema makes of the data reaches the effect, and the event's attributes with it", async () => {
    const converting = defineEvents({
      'order.placed': z.object({
        placedOn: z.iso.date().transform((text) => new Date(text)),
        quantity: z.int().default(1),
      }),
    });
    const seen: unknown[] = [];
    const { deliver } = startConsumer({
      db,
      queues,
      events: converting,
      effects: {
        'order.placed': async (_: Tx, event) =>
          seen.push({ year: event.data.placedOn.getUTCFullYear(), event }),
      },
    });
    const record = orderRecord({ data: { placedOn: '2026-11-30', ignored: true } });
    expect(await deliver([record])).toEqual([]);
    expect(seen).toEqual([
      {
        year: 2026,
        event: {
          id: eventIdOf(record),
          source: '/orders',
          type: 'order.placed',
          time: '2026-11-30T12:00:00.000000Z',
          data: { placedOn: new Date('2026-11-30'), quantity: 1 },
        },
      },
    ]);
  });

  test('a schema that answers later is waited for, and one that fails for a moment is tried again', async () => {
    const records = orderRecords(3) as [SQSRecord, SQSRecord, SQSRecord];
    let registryDown = true;
    const validate = async (value: unknown) => {
      await Promise.resolve();
      const { orderId } = value as { orderId: string };
      if (orderId.endsWith(eventIdOf(records[1])) && registryDown) throw new Error('registry is down');
      if (orderId.endsWith(eventIdOf(records[2]))) return { issues: [{ message: 'is not known' }] };
      return { value };
    };
    const asking = defineEvents({
      'order.placed': { '~standard': { version: 1, vendor: 'registry', validate } },
    });
    const { deliver } = startConsumer({
      db,
      queues,
      events: asking,
      effects: { 'order.placed': noteEffect },
    });
    expect(await deliver(records)).toEqual([records[1].messageId]);
    expect(deadLetters()).toMatchObject([
      { of: records[2].messageId, reason: 'InvalidPayload: payload: is not known' },
    ]);
    registryDown = false;
    expect(await deliver([again(records[1])])).toEqual([]);
    expect(await ledgerAndEffects(db)).toEqual(onceEach(records[0], records[1]));
  });
});
