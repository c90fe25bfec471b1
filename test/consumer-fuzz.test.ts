// Any batch whatever: it is answered, each record is applied, dead-lettered or reported, and no event is applied twice.

import type { SQSRecord } from 'aws-lambda';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { orderEvents } from '../functions/events/order.ts';
import { TerminalError } from '../functions/shared/errors.ts';
import {
  bodyOf,
  captureReports,
  contextWith,
  createConsumerDatabase,
  eventIdOf,
  noteEffect,
  recordOf,
  startConsumer,
} from './support/consumer.ts';
import { fuzzFor } from './support/fuzz.ts';
import { liveHeapMb } from './support/heap.ts';
import { startScriptedSqs, type ScriptedSqs } from './support/scripted-sqs.ts';

/** Before and after the first look at the memory. */
const RUN_SECONDS = 1.5;
const GROWTH_MB = 30;

/** JSON that a lax parser or a careless spread would trip over. */
const nastyValue = fc.oneof(
  fc.jsonValue({ noUnicodeString: false }),
  fc.constantFrom<unknown>(
    null,
    1e308,
    -0,
    2 ** 53 + 1,
    '',
    '\u0000',
    '\ud800',
    '\uffff',
    'x'.repeat(300),
    { valueOf: 1, toString: 2 },
    { constructor: { prototype: { polluted: true } } },
    JSON.parse('{"__proto__":{"polluted":true,"id":"x"}}'),
  ),
);

/** An attribute that the envelope has, lacks, or should not have. */
const attribute = fc.constantFrom(
  'specversion',
  'id',
  'source',
  'type',
  'time',
  'data',
  '__proto__',
  'extra',
);

const mutatedBody = fc.oneof(
  // An attribute of a good envelope with another value, or without one.
  fc.tuple(attribute, fc.option(nastyValue, { nil: undefined })).map(([name, value]) => {
    const whole = Object.entries(JSON.parse(bodyOf()) as object).filter(([key]) => key !== name);
    const parts = value === undefined ? whole : [...whole, [name, value] as const];
    return `{${parts.map(([key, part]) => `${JSON.stringify(key)}:${JSON.stringify(part)}`).join(',')}}`;
  }),
  // A good envelope cut off, doubled, or with a character changed.
  fc.tuple(fc.nat(200), fc.string({ unit: 'binary', maxLength: 3 })).map(([at, text]) => {
    const body = bodyOf();
    return body.slice(0, at) + text + body.slice(at + 1);
  }),
  fc.nat(200).map((length) => bodyOf().slice(0, length)),
  fc.constant(0).map(() => bodyOf() + bodyOf()),
  // Numbers and nesting that JSON allows.
  fc
    .constantFrom(
      '1e400',
      '-0',
      `0.${'9'.repeat(400)}`,
      '9'.repeat(5_000),
      '{"a":'.repeat(3_000) + '1' + '}'.repeat(3_000),
    )
    .map((text) => bodyOf().replace('"quantity":2', `"quantity":${text}`)),
  // Long texts, in one to four bytes a character.
  fc
    .tuple(fc.integer({ min: 0, max: 17 }), fc.constantFrom('x', 'é', '文', '😀'))
    .map(([n, character]) =>
      bodyOf({ data: { orderId: 'o', sku: 'SKU-17', quantity: 2, note: character.repeat(2 ** n / 4) } }),
    ),
  nastyValue.map((value) => JSON.stringify(value)),
  fc.string({ unit: 'binary' }),
  fc.uint8Array().map((bytes) => Buffer.from(bytes).toString('latin1')),
);

/** Fields around the body, which SQS fills in and a test event may not. */
const mutatedRecord: fc.Arbitrary<Partial<SQSRecord>> = fc.record(
  {
    receiptHandle: fc.string(),
    attributes: fc.oneof(
      fc.constantFrom<unknown>(undefined, null, {}),
      fc.record({ ApproximateReceiveCount: fc.oneof(fc.string(), fc.double().map(String), nastyValue) }),
    ) as fc.Arbitrary<SQSRecord['attributes']>,
    messageAttributes: fc.oneof(
      fc.constantFrom<unknown>(undefined, null),
      fc.dictionary(
        fc.oneof(fc.constantFrom('a', 'outbox-reason', 'AWS.x', '__proto__'), fc.string()),
        fc.oneof(
          nastyValue,
          fc.record({
            dataType: fc.constantFrom('String', 'Number', 'Binary', ''),
            stringValue: fc.string(),
          }),
        ),
      ),
    ) as fc.Arbitrary<SQSRecord['messageAttributes']>,
  },
  { requiredKeys: [] },
);

interface Given {
  kind: 'good' | 'failing' | 'terminal' | 'again' | 'mutated';
  body: string;
  around: Partial<SQSRecord>;
}

const given: fc.Arbitrary<Given> = fc.record({
  kind: fc.constantFrom('good', 'good', 'failing', 'terminal', 'again', 'mutated', 'mutated', 'mutated'),
  body: mutatedBody,
  around: fc.oneof({ weight: 3, arbitrary: fc.constant({}) }, { weight: 1, arbitrary: mutatedRecord }),
});

interface Batch {
  records: SQSRecord[];
  of: (...kinds: Given['kind'][]) => SQSRecord[];
}

/** Fresh events each time: a shrunk example must not meet the ledger rows of the run before. */
function batchOf(all: readonly Given[]): Batch {
  const records: SQSRecord[] = [];
  for (const { kind, body, around } of all) {
    const first = records.find((_, n) => all[n]?.kind === 'good');
    const own = kind === 'mutated' ? body : bodyOf({ data: { orderId: kind, sku: 'SKU-17', quantity: 2 } });
    records.push(recordOf(kind === 'again' && first ? first.body : own, around));
  }
  return { records, of: (...kinds) => records.filter((_, n) => kinds.includes(all[n]?.kind ?? 'mutated')) };
}

const idsOf = (records: SQSRecord[]) => records.map(({ messageId }) => messageId);

const buriedIn = (queues: ScriptedSqs) =>
  new Set(queues.stored('dead').map(({ attributes }) => attributes['outbox-message-id']?.StringValue));

/** What the test itself keeps of a batch, so that the memory it looks at is the consumer's. */
function forget(lines: unknown[], queues: ScriptedSqs): void {
  lines.length = 0;
  queues.stored('dead').length = 0;
}

test.each(['record', 'batch'] as const)(
  'no batch is thrown back, loses a record, or applies one twice (transaction per %s)',
  async (transactionPer) => {
    const lines = captureReports();
    const db = await createConsumerDatabase();
    const queues = await startScriptedSqs({ queues: { stock: {}, dead: {} }, record: false });
    const { handler } = startConsumer({
      db,
      queues,
      transactionPer,
      events: orderEvents,
      effects: {
        'order.placed': async (tx, event) => {
          await noteEffect(tx, event);
          if (event.data.orderId === 'failing') throw new Error('not now');
          if (event.data.orderId === 'terminal') throw new TerminalError('never');
        },
      },
    });
    const deliver = async (records: SQSRecord[]) =>
      (await handler({ Records: records }, contextWith())).batchItemFailures.map((f) => f.itemIdentifier);
    const appliedTimes = async (id: string) =>
      (
        await db.sql(
          `SELECT (SELECT count(*) FROM applied_event WHERE event_id = $1)::int AS ledger,
             (SELECT count(*) FROM effect WHERE event_id = $1)::int AS effects`,
          [id],
        )
      )[0];

    const check = async (all: Given[]): Promise<void> => {
      forget(lines, queues);
      const { records, of } = batchOf(all);
      const failed = await deliver(records);
      expect(failed.filter((id) => !idsOf(records).includes(id))).toEqual([]);
      expect(new Set(failed).size).toBe(failed.length);
      const buried = buriedIn(queues);
      const lost = idsOf(of('failing')).filter((id) => !failed.includes(id));
      expect(lost).toEqual([]);
      expect(idsOf(of('good', 'again')).filter((id) => failed.includes(id) || buried.has(id))).toEqual([]);
      // A dead letter whose own attributes SQS refuses stays in its queue.
      for (const id of idsOf(of('terminal', 'mutated')))
        expect(failed.includes(id) && buried.has(id)).toBe(false);
      for (const id of idsOf(of('terminal'))) expect(failed.includes(id) || buried.has(id)).toBe(true);
      // A mutated record that is neither is one that is still an event, and was applied.
      for (const record of of('mutated'))
        if (!failed.includes(record.messageId) && !buried.has(record.messageId))
          expect(await appliedTimes(eventIdOf(record).toLowerCase())).toEqual({ ledger: 1, effects: 1 });
      // Whatever comes again, comes to the same.
      expect((await deliver(records)).toSorted()).toEqual(failed.toSorted());
      for (const record of of('good'))
        expect(await appliedTimes(eventIdOf(record))).toEqual({ ledger: 1, effects: 1 });
      for (const record of of('failing', 'terminal'))
        expect(await appliedTimes(eventIdOf(record))).toEqual({ ledger: 0, effects: 0 });
    };
    const run = async () => {
      await fuzzFor(RUN_SECONDS, fc.array(given, { minLength: 1, maxLength: 10 }), check);
      forget(lines, queues);
      return liveHeapMb();
    };
    const warm = await run();
    expect((await run()) - warm).toBeLessThan(GROWTH_MB);
    const [sum] = await db.sql(`SELECT count(*) AS ledger, (SELECT count(*) FROM effect) AS effects,
      (SELECT count(DISTINCT event_id) FROM effect) AS events FROM applied_event`);
    expect(sum).toEqual({ ledger: sum?.['events'], effects: sum?.['events'], events: expect.any(Number) });
    expect(Number(sum?.['events'])).toBeGreaterThan(0);
    expect(({} as { polluted?: true }).polluted).toBeUndefined();
  },
  120_000,
);

const anyRecord = fc.oneof(
  nastyValue,
  fc.record(
    {
      messageId: fc.oneof(fc.uuid(), fc.uuid(), nastyValue),
      body: fc.oneof(fc.string(), nastyValue),
      attributes: nastyValue,
      eventSourceARN: nastyValue,
    },
    { requiredKeys: [] },
  ),
);

// oxlint-disable-next-line no-control-regex -- control characters are what it looks for
const UNFIT = /[\u0000-\u0008\u000B\u000C\u000E-\u001F\uFFFE\uFFFF]/g;
/** An id as a dead letter's attribute can carry it. */
const inAttribute = (id: string): string => id.toWellFormed().replace(UNFIT, '\uFFFD');

test('an event of any shape is thrown back whole, or each of its records is named or dead-lettered', async () => {
  const lines = captureReports();
  const db = await createConsumerDatabase();
  const queues = await startScriptedSqs({ queues: { stock: {}, dead: {} }, record: false });
  const { handler } = startConsumer({ db, queues });
  const seen = { answered: 0, thrown: 0 };
  const check = async (event: unknown): Promise<void> => {
    forget(lines, queues);
    const answer = await handler(event as never, contextWith()).catch(() => undefined);
    seen[answer ? 'answered' : 'thrown'] += 1;
    if (!answer) return;
    const { Records } = event as { Records: SQSRecord[] };
    const failed = new Set<unknown>(answer.batchItemFailures.map(({ itemIdentifier }) => itemIdentifier));
    const buried = buriedIn(queues);
    const isBuried = (id: unknown) => typeof id === 'string' && buried.has(inAttribute(id));
    for (const { messageId } of Records) if (!isBuried(messageId)) expect(failed).toContain(messageId);
  };
  for (const messageId of ['a\u0000b\uD800', { valueOf: 1, toString: 2 }])
    await check({ Records: [{ messageId, body: 'x' }] });
  const records = fc.array(anyRecord, { maxLength: 5 });
  const wellFormed = fc.record({ messageId: fc.uuid(), body: fc.oneof(fc.string(), nastyValue) });
  const event = fc.oneof(
    nastyValue,
    fc.record({ Records: fc.oneof(records, nastyValue) }),
    fc.record({ Records: fc.array(wellFormed as fc.Arbitrary<unknown>, { maxLength: 5 }) }),
  );
  await fuzzFor(RUN_SECONDS, event, check);
  expect(Math.min(seen.answered, seen.thrown)).toBeGreaterThan(0);
  expect(await db.sql('SELECT count(*) AS n FROM applied_event')).toEqual([{ n: 0 }]);
}, 120_000);
