import fc from 'fast-check';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { writeEnvelope } from '../functions/outbox/envelope.ts';
import { recordEvents } from '../functions/outbox/record.ts';
import { pruneOutbox } from '../functions/prune/prune.ts';
import { noCounts, type TickCounts } from '../functions/relay/counts.ts';
import type { RelayParts } from '../functions/relay/parts.ts';
import type { Sender } from '../functions/relay/sender.ts';
import { plan } from '../functions/relay/plan.ts';
import { tick } from '../functions/relay/tick.ts';
import { storeOf, type Store } from '../functions/shared/store.ts';
import type { PrismaClient } from '../prisma/client/client.ts';
import { createDatabase, createPrisma, type TestDatabase } from './support/database.ts';
import { insertEvent, insertEvents, leased } from './support/factories.ts';
import { setReadOnly } from './support/knobs.ts';
import { startProcess, type TestProcess } from './support/process.ts';
import type { RelayOrder } from './support/programs/relay.ts';
import {
  claimedEvent,
  claimSome,
  destinationsOf,
  endBackoffs,
  expireLeases,
  idOfBody,
  outboxRow,
  outboxRows,
  relayParts,
  sendersOf,
  stateCounts,
  storedIds,
} from './support/relay.ts';
import * as scripted from './support/scripted-sqs.ts';
import { startScriptedSqs, type Call, type ScriptedSqs } from './support/scripted-sqs.ts';
import { until } from './support/wait.ts';

const MiB = 1_048_576;
const KiB = 1_024;
/** A process on a busy machine loads Prisma for seconds. */
const START_WITHIN_MS = 25_000;

let db: TestDatabase;
let prisma: PrismaClient;
let sqs: ScriptedSqs;

beforeAll(async () => {
  db = await createDatabase();
  prisma = createPrisma(db.url, { max: 5 });
});
beforeEach(async () => {
  await db.sql('TRUNCATE outbox_event');
  sqs = await startScriptedSqs({ queues: { stock: {}, mail: {} } });
});

type Settings = Parameters<typeof relayParts>[2];
const partsWith = (settings?: Settings) => relayParts(prisma, sqs, settings);
const inFull = () => 20_000;
/** One tick with all the time it wants. */
const tickOnce = (settings?: Settings) => tick(partsWith(settings), inFull);
const record = (...payloads: unknown[]) =>
  prisma.$transaction((tx) =>
    recordEvents(
      tx,
      payloads.map((payload) => ({
        type: 'order.placed',
        source: '/orders',
        destinations: ['stock'],
        payload,
      })),
    ),
  );

const callIds = ({ entries }: Call) => entries.map(({ MessageBody }) => idOfBody(MessageBody));
const dataOf = (body: string) => (JSON.parse(body) as { data: unknown }).data;
const idsOf = (events: { eventId: string }[]) => events.map(({ eventId }) => eventId);
const sorted = (texts: string[]) => texts.toSorted();
/** Time passes for what was left without an answer, whether its lease or a back-off holds it. */
const passTime = async () => {
  await expireLeases(db);
  await endBackoffs(db);
};
/** Every claimed row ended under one heading. */
const accounted = ({ acknowledged, released, parked, fencedOut, unanswered }: TickCounts) =>
  acknowledged + released + parked + fencedOut + unanswered;

const isCounts = (message: unknown): message is { counts: TickCounts } => 'counts' in Object(message);

/** The relay's real handler in a process of its own. */
function startRelay(order: Partial<RelayOrder> & { settings?: Settings } = {}): TestProcess {
  const { settings, ...more } = order;
  const config = { ...relayParts(prisma, sqs, settings).config, databaseUrl: db.url, poolSize: 2 };
  return startProcess(new URL('./support/programs/relay.ts', import.meta.url), {
    args: [JSON.stringify({ budgetMs: 20_000, ...more, config } satisfies RelayOrder)],
    env: sqs.env,
  });
}
const countsOf = async (relay: TestProcess): Promise<TickCounts> => {
  return (await relay.message(isCounts, START_WITHIN_MS)).counts;
};

describe('what is recorded arrives', () => {
  test('in calls of ten, each event once, and is kept as published', async () => {
    const events = await insertEvents(db, 25);
    expect(await tickOnce()).toEqual({
      ...noCounts(),
      oldestSeconds: expect.any(Number),
      claimed: 25,
      published: 25,
      acknowledged: 25,
    });
    expect(
      sqs
        .sends()
        .map(({ entries }) => entries.length)
        .toSorted((a, b) => a - b),
    ).toEqual([5, 10, 10]);
    expect(sorted(storedIds(sqs))).toEqual(sorted(idsOf(events)));
    const messageIds = new Map(sqs.stored('stock').map(({ body, messageId }) => [idOfBody(body), messageId]));
    for (const row of await outboxRows(db))
      expect(row).toMatchObject({ state: 'PUBLISHED', messageId: messageIds.get(row.eventId) });
  });

  // Cases D7, D9 and B4: the queue would refuse a raw U+FFFE or U+FFFF, a parser in between would change the rest.
  test('byte for byte, whatever it is made of', async () => {
    const payloads = [
      { at: new Date(0), $type: 'DateTime', o: { $type: 'Raw', value: 1 }, b: 1.0, z: 1, a: 2, n: null },
      ...['\u0007', '😀', '\u007F', 'a\u0000b', '\uD800', '\u2028'].map((t) => ({ t })),
      null,
      'é',
    ];
    const noncharacters = [{ t: '\uFFFF' }, { t: '\uFFFE' }];
    const ids = await record(...payloads, ...noncharacters);
    expect(await tickOnce()).toMatchObject({ acknowledged: ids.length, parked: 0 });
    const bodies = new Map(sqs.stored('stock').map(({ body }) => [idOfBody(body), body]));
    const bodyOf = (n: number) => bodies.get(ids[n] ?? '') ?? '';
    for (const [n, payload] of payloads.entries())
      expect(bodyOf(n).endsWith(`,"data":${JSON.stringify(payload)}}`)).toBe(true);
    for (const [n, payload] of noncharacters.entries())
      expect(dataOf(bodyOf(payloads.length + n))).toEqual(payload);
  });

  test('in a CloudEvents envelope with the time of recording', async () => {
    const { eventId } = await insertEvent(db);
    await tickOnce();
    const [row] = await db.sql<{ at: Date }>('SELECT recorded_at AS at FROM outbox_event');
    const { time, ...envelope } = JSON.parse(sqs.stored('stock')[0]?.body ?? '') as { time: string };
    expect(envelope).toEqual({
      specversion: '1.0',
      id: eventId,
      source: '/orders',
      type: 'order.placed',
      datacontenttype: 'application/json',
      data: { n: 1 },
    });
    expect(new Date(time)).toEqual(row?.at);
  });

  test('with the time it was recorded for, when that was later, however often it is tried', async () => {
    const [event] = await insertEvents(db, 1, { recordedInSeconds: -60, dueInSeconds: -30 });
    const [row] = await db.sql<{ due: Date }>('SELECT due_at AS due FROM outbox_event');
    sqs.next(scripted.throttled());
    await tickOnce();
    await endBackoffs(db);
    await tickOnce();
    const { duetime } = JSON.parse(sqs.stored('stock')[0]?.body ?? '') as { duetime: string };
    expect(new Date(duetime)).toEqual(row?.due);
    // What a person sends again is due because that person said so.
    await db.sql(`UPDATE outbox_event SET state = 'PENDING', published_at = NULL, message_id = NULL, replays = 1,
      due_at = clock_timestamp(), waiting_since = NULL`);
    await tickOnce();
    expect(sqs.stored('stock').map(({ body }) => idOfBody(body))).toEqual([event?.eventId, event?.eventId]);
    expect(sqs.stored('stock')[1]?.body).not.toContain('duetime');
  });

  test('however many claims it takes, with several calls in flight and never more than allowed', async () => {
    const events = await insertEvents(db, 250);
    sqs.latencyMs = 100;
    const counts = await tickOnce({ claimLimit: 40, callsInFlight: 6 });
    expect(counts).toMatchObject({ claimed: 250, acknowledged: 250 });
    expect(sorted(storedIds(sqs))).toEqual(sorted(idsOf(events)));
    // Four calls are one claim: more of them are two claims at once.
    expect(sqs.mostInFlight).toBeGreaterThan(4);
    expect(sqs.mostInFlight).toBeLessThanOrEqual(6);
  });

  test('and is gone at once when nothing is to be kept', async () => {
    await insertEvents(db, 12);
    expect(await tickOnce({ keepPublished: false })).toMatchObject({ acknowledged: 12 });
    expect(await outboxRows(db)).toEqual([]);
    expect(sqs.stored('stock')).toHaveLength(12);
  });

  test('nothing due is no call and no report', async () => {
    const relay = partsWith();
    expect(await tick(relay, inFull)).toEqual(noCounts());
    expect([sqs.calls, relay.reported]).toEqual([[], []]);
  });
});

describe('answers, entry by entry', () => {
  // Case B1.
  test('a batch that fails in part costs its neighbours nothing', async () => {
    const events = await insertEvents(db, 30);
    sqs.next(
      scripted.fail({
        3: { code: 'InternalError' },
        7: { code: 'ServiceUnavailable' },
        9: { code: 'InvalidMessageContents', senderFault: true, message: 'bad characters' },
      }),
      scripted.reset(),
    );
    const counts = await tickOnce({ callsInFlight: 1 });
    expect(counts).toEqual({
      ...noCounts(),
      oldestSeconds: expect.any(Number),
      claimed: 30,
      published: 17,
      acknowledged: 17,
      released: 12,
      releasedBy: { Unavailable: 12 },
      parked: 1,
      parkedBy: { Refused: 1 },
    });
    const rows = await outboxRows(db);
    const states = rows.map(({ state }) => state);
    const retried = [3, 7, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19];
    expect(retried.map((n) => states[n])).toEqual(retried.map(() => 'PENDING'));
    // A connection error says nothing of an event, an answer for the entry does.
    expect(retried.map((n) => rows[n]?.attempts)).toEqual([1, 1, ...Array.from({ length: 10 }, () => 0)]);
    for (const n of retried) expect(rows[n]).toMatchObject({ releases: 1, claimToken: null });
    expect(rows[3]?.lastError).toBe('InternalError: InternalError by script');
    expect(rows[9]).toMatchObject({ state: 'PARKED', parkReason: 'InvalidMessageContents: bad characters' });

    expect(await claimSome(storeOf(prisma), { limit: 30 })).toMatchObject({ events: [] });
    await endBackoffs(db);
    expect(await tickOnce()).toMatchObject({ claimed: 12, acknowledged: 12 });
    const parkedId = events[9]?.eventId;
    expect(sorted(storedIds(sqs))).toEqual(sorted(idsOf(events).filter((id) => id !== parkedId)));
    expect(await stateCounts(db)).toEqual({ PUBLISHED: 29, PARKED: 1 });
  });

  test('an entry in neither list is tried again', async () => {
    const events = await insertEvents(db, 3);
    sqs.next(scripted.outcomes({ 1: 'omitted', 2: 'storedButOmitted' }));
    expect(await tickOnce()).toMatchObject({ acknowledged: 1, released: 2, parked: 0 });
    expect((await outboxRows(db))[1]).toMatchObject({ state: 'PENDING', releases: 1 });
    expect((await outboxRows(db))[1]?.lastError).toMatch(/neither list/);
    await endBackoffs(db);
    expect(await tickOnce()).toMatchObject({ acknowledged: 2 });
    // One message twice: the consumer's ledger absorbs it. None missing.
    expect(sorted(storedIds(sqs))).toEqual(sorted([...idsOf(events), events[2]?.eventId ?? '']));
  });

  test.each([
    ['a wrong checksum', scripted.wrongMd5('1')],
    // Case B6.
    ['a connection reset after everything was stored', scripted.storeThenReset()],
    ['an answer without lists', scripted.storeThenRespond({})],
    ['an answer that is no JSON', scripted.storeThenRespond('<html>')],
  ])('%s is ambiguous: sent again, nothing parked, no attempt spent', async (_, answer) => {
    const events = await insertEvents(db, 3);
    sqs.next(answer);
    expect(await tickOnce()).toMatchObject({ published: 0, released: 3, parked: 0 });
    expect((await outboxRows(db)).map(({ attempts }) => attempts)).toEqual([0, 0, 0]);
    await endBackoffs(db);
    expect(await tickOnce()).toMatchObject({ acknowledged: 3 });
    expect(sorted(storedIds(sqs))).toEqual(sorted([...idsOf(events), ...idsOf(events)]));
    expect(await stateCounts(db)).toEqual({ PUBLISHED: 3 });
  });

  // Case B6, seen from the production client, which tries a dead socket once more by itself.
  test('a message that was stored before the socket died is there twice under one id, its row published', async () => {
    const { eventId } = await insertEvent(db);
    sqs.next(scripted.storeThenReset());
    const relay = {
      ...partsWith(),
      senders: sendersOf(sqs, destinationsOf(sqs, 'stock'), { maxAttempts: 2 }),
    };
    expect(await tick(relay, inFull)).toMatchObject({ acknowledged: 1, released: 0 });
    expect(storedIds(sqs)).toEqual([eventId, eventId]);
  });

  test('an event that fails every time beside good ones is parked after its last attempt, with the answer', async () => {
    const poison = await insertEvent(db);
    sqs.on(({ entries }) => {
      const bad = entries.find(({ MessageBody }) => idOfBody(MessageBody) === poison.eventId);
      return bad && scripted.fail({ [bad.Id]: { code: 'InternalError' } });
    });
    for (let n = 1; n <= 4; n += 1) {
      await endBackoffs(db);
      const healthy = await insertEvents(db, 2);
      await tickOnce({ maxAttempts: 3 });
      for (const { sequence } of healthy) expect((await outboxRow(db, sequence)).state).toBe('PUBLISHED');
    }
    const row = await outboxRow(db, poison.sequence);
    expect(row).toMatchObject({ state: 'PARKED', attempts: 3 });
    expect(row.parkReason).toMatch(/AttemptsExhausted: 3.*InternalError/);
  });
});

// Case B3: what SQS counts are bytes of UTF-8, for a message and for a call.
describe('size', () => {
  const around = Buffer.byteLength(writeEnvelope({ ...claimedEvent(), payload: '""' }));
  const payloadFor = (messageBytes: number) => `"${'x'.repeat(messageBytes - around)}"`;

  test('ten messages of 110 KiB are two calls', async () => {
    await insertEvents(db, 10, { payloadText: payloadFor(110 * KiB) });
    expect(await tickOnce()).toMatchObject({ acknowledged: 10 });
    expect(
      sqs
        .sends()
        .map(({ entries }) => entries.length)
        .toSorted((a, b) => a - b),
    ).toEqual([1, 9]);
  });

  test('a message of 1.2 MB in 600,000 characters is parked alone, its nine neighbours go out', async () => {
    const tooLarge = { payloadText: JSON.stringify('é'.repeat(600_000)) };
    await insertEvents(db, 10, (n) => (n === 4 ? tooLarge : {}));
    expect(await tickOnce()).toMatchObject({ acknowledged: 9, parked: 1, released: 0 });
    const row = (await outboxRows(db))[4];
    expect(row).toMatchObject({ state: 'PARKED', attempts: 1 });
    expect(row?.parkReason).toMatch(/TooLarge.*1200\d\d\d.*1048576/);
  });

  test.each([MiB, 262_144])('exactly %i bytes pass, one byte more is parked alone', async (maxBytes) => {
    const own = await startScriptedSqs({ queues: { stock: { maximumMessageBytes: maxBytes } } });
    const queueUrl = own.queueUrl('stock');
    const sizes = [maxBytes, maxBytes + 1, 1_000];
    const events = await insertEvents(db, 3, (n) => ({ payloadText: payloadFor(sizes[n] ?? 0) }));
    const relay = relayParts(prisma, own, {
      destinations: { stock: { kind: 'sqs', queueUrl, maxBytes, parkedHead: 'hold' } },
    });
    expect(await tick(relay, inFull)).toMatchObject({ acknowledged: 2, parked: 1 });
    expect((await outboxRows(db)).map(({ state }) => state)).toEqual(['PUBLISHED', 'PARKED', 'PUBLISHED']);
    expect(
      own
        .stored('stock')
        .map(({ body }) => Buffer.byteLength(body))
        .toSorted((a, b) => a - b),
    ).toEqual([1_000, maxBytes]);
    expect(storedIds(own)).not.toContain(events[1]?.eventId);
  });

  test('a queue that takes less than we were told parks what it refuses, alone, with its own words', async () => {
    const own = await startScriptedSqs({ queues: { stock: { maximumMessageBytes: 1_024 } } });
    await insertEvents(db, 3, (n) => ({ payloadText: payloadFor(n === 1 ? 1_025 : 1_024) }));
    expect(await tick(relayParts(prisma, own), inFull)).toMatchObject({ acknowledged: 2, parked: 1 });
    expect((await outboxRows(db))[1]?.parkReason).toMatch(/InvalidParameterValue.*1024 bytes/);
  });

  test('a call that SQS counts as too long is cut until it fits, and never made twice', async () => {
    const events = await insertEvents(db, 10);
    sqs.on(({ entries }) => (entries.length > 2 ? scripted.batchRequestTooLong() : undefined));
    expect(await tickOnce()).toMatchObject({ acknowledged: 10, released: 0, parked: 0 });
    expect(sorted(storedIds(sqs))).toEqual(sorted(idsOf(events)));
    const calls = sqs.sends().map((call) => sorted(callIds(call)).join());
    expect(new Set(calls).size).toBe(calls.length);
  });

  test('a single message that SQS counts as too long is parked, its neighbours go out', async () => {
    const events = await insertEvents(db, 10);
    const tooLong = events[6]?.eventId ?? '';
    sqs.on((call) => (callIds(call).includes(tooLong) ? scripted.batchRequestTooLong() : undefined));
    expect(await tickOnce()).toMatchObject({ acknowledged: 9, released: 0, parked: 1 });
    expect((await outboxRows(db))[6]?.parkReason).toContain('BatchRequestTooLong');
    const calls = sqs.sends().map((call) => sorted(callIds(call)).join());
    expect(new Set(calls).size).toBe(calls.length);
  });
});

describe('an entry', () => {
  test.each(['RequestThrottled', 'KMS.ThrottlingException', 'AWS.SimpleQueueService.Throttling'])(
    'that is throttled spends no attempt, whoever is said to be at fault: %s',
    async (code) => {
      await insertEvents(db, 2);
      sqs.next(scripted.fail({ 0: { code, senderFault: true } }));
      expect(await tickOnce({ maxAttempts: 1 })).toMatchObject({ acknowledged: 1, released: 1, parked: 0 });
      expect((await outboxRows(db)).map(({ attempts }) => attempts).toSorted((a, b) => a - b)).toEqual([
        0, 1,
      ]);
    },
  );

  test('that may not be sent there is not refused: somebody can mend it', async () => {
    await insertEvents(db, 2);
    sqs.next(scripted.fail({ 0: { code: 'KmsAccessDenied', senderFault: true } }));
    expect(await tickOnce()).toMatchObject({ acknowledged: 1, released: 1, parked: 0 });
  });

  test('whose answer has characters that PostgreSQL refuses is settled like any other', async () => {
    await insertEvents(db, 2);
    sqs.next(scripted.fail({ 0: { code: 'InternalError', message: 'a\u0000b\ud800' } }));
    expect(await tickOnce()).toMatchObject({ acknowledged: 1, released: 1 });
    expect((await outboxRows(db)).map(({ lastError }) => lastError)).toContain('InternalError: a b\ufffd');
  });
});

test('an answer that is no answer, with a NUL in it, is an outage like any other', async () => {
  await insertEvents(db, 3);
  sqs.on(() => (exchange) => exchange.respond(502, '\u0000 not json'));
  expect(await tickOnce({ maxAttempts: 1 })).toMatchObject({ released: 3, parked: 0 });
});

describe('a call refused for a reason that nobody has heard of', () => {
  test.each([
    ['a code', () => scripted.serviceError('SomethingNew')],
    ['a proxy on the way', () => scripted.httpError(413)],
  ])('costs its neighbours nothing, and ends with the event that it is about (%s)', async (_, answer) => {
    const events = await insertEvents(db, 10);
    const poison = events[6]?.eventId ?? '';
    sqs.on((call) => (callIds(call).includes(poison) ? answer() : undefined));
    expect(await tickOnce({ maxAttempts: 1 })).toMatchObject({ acknowledged: 9, released: 0, parked: 1 });
    expect((await outboxRows(db))[6]?.parkReason).toMatch(/^AttemptsExhausted: 1; last answer: .+/);
  });

  test('parks nothing when it is about the queue: nothing got through', async () => {
    await insertEvents(db, 10);
    sqs.on(() => scripted.serviceError('SomethingNew'));
    expect(await tickOnce({ maxAttempts: 1 })).toMatchObject({ acknowledged: 0, released: 10, parked: 0 });
    expect((await outboxRows(db)).map(({ attempts }) => attempts)).toEqual(Array(10).fill(0));
  });

  test.each(['KmsThrottled', 'QueueDoesNotExist', 'ExpiredToken'])(
    'is not looked for after %s',
    async (code) => {
      await insertEvents(db, 10);
      sqs.on(() => scripted.serviceError(code, { status: 400 }));
      expect(await tickOnce()).toMatchObject({ released: 10, parked: 0 });
      expect(sqs.sends()).toHaveLength(1);
    },
  );
});

// Case B4, for a row that something else than recordEvents has written.
test('a character that SQS refuses parks its event alone', async () => {
  await insertEvents(db, 3, (n) => (n === 1 ? { payloadText: '{"t":"\uFFFF"}' } : {}));
  expect(await tickOnce()).toMatchObject({ acknowledged: 2, parked: 1 });
  expect((await outboxRows(db))[1]?.parkReason).toContain('InvalidMessageContents');
});

// Promise 6.
describe('an outage is not poison', () => {
  // Case A7.
  test('with SQS down, no relay hammers, nothing is parked, and after recovery all 25 arrive', async () => {
    const events = await insertEvents(db, 25);
    const settings = { claimLimit: 5, claimsUnderway: 2, backoffBaseSeconds: 60, maxAttempts: 3 };
    sqs.on(() => scripted.httpError(503));
    const began = performance.now();
    const first = await tick(partsWith(settings), () => 30_000);
    // It ends because nothing got through, not because its 30 s were over.
    expect(performance.now() - began).toBeLessThan(10_000);
    expect(first).toMatchObject({ published: 0, parked: 0 });
    expect(accounted(first)).toBe(first.claimed);
    expect(first.claimed).toBeLessThanOrEqual(15);
    expect(sqs.sends().length).toBeLessThanOrEqual(3);

    for (let n = 0; n < 10; n += 1) await tickOnce(settings);
    await Promise.all([1, 2, 3, 4].map(() => tickOnce(settings)));
    const tries = () => sqs.sends().flatMap(callIds);
    // All of this within one back-off: each event went out at most once, and was claimed once.
    expect(tries()).toHaveLength(new Set(tries()).size);
    for (const row of await outboxRows(db))
      expect(row).toMatchObject({ state: 'PENDING', attempts: 0, releases: 1 });

    await endBackoffs(db);
    const before = tries().length;
    await Promise.all([1, 2, 3, 4].map(() => tickOnce(settings)));
    const second = tries().slice(before);
    expect(second).toHaveLength(new Set(second).size);
    for (const { releases } of await outboxRows(db)) expect(releases).toBeLessThanOrEqual(2);

    sqs.on();
    await endBackoffs(db);
    await tickOnce(settings);
    expect(sorted(storedIds(sqs))).toEqual(sorted(idsOf(events)));
    expect(await stateCounts(db)).toEqual({ PUBLISHED: 25 });
  });

  test.each<[string, scripted.Answer, RegExp]>([
    ['a queue that does not exist', scripted.queueDoesNotExist(), /QueueDoesNotExist/],
    ['a queue that we may not use', scripted.accessDenied(), /AccessDenied/],
    ['throttling', scripted.throttled(), /RequestThrottled/],
    ['an internal error', scripted.httpError(500, '<html>'), /./],
    ['a bad gateway', scripted.httpError(502), /./],
    ['a connection that is reset', scripted.reset(), /ECONNRESET/],
    [
      'every entry unavailable',
      scripted.fail({ 0: { code: 'ServiceUnavailable' }, 1: { code: 'ServiceUnavailable' } }),
      /ServiceUnavailable/,
    ],
  ])('%s parks nothing and spends no attempt, however long it lasts', async (_, answer, reason) => {
    const events = await insertEvents(db, 2);
    sqs.on(() => answer);
    for (let n = 0; n < 5; n += 1) {
      await tickOnce({ maxAttempts: 2 });
      await endBackoffs(db);
    }
    for (const row of await outboxRows(db)) {
      expect(row).toMatchObject({ state: 'PENDING', attempts: 0, releases: 5, claimToken: null });
      expect(row.lastError).toMatch(reason);
    }
    sqs.on();
    expect(await tickOnce({ maxAttempts: 2 })).toMatchObject({ acknowledged: 2 });
    expect(sorted(storedIds(sqs))).toEqual(sorted(idsOf(events)));
  });

  test('neither does a destination that nobody has configured yet; the others are served', async () => {
    await insertEvents(db, 4, (n) => ({ destination: n % 2 ? 'stock' : 'toString' }));
    for (let n = 0; n < 3; n += 1) {
      await tickOnce({ maxAttempts: 2 });
      await endBackoffs(db);
    }
    const rows = await outboxRows(db);
    expect(rows.map(({ state }) => state)).toEqual(['PENDING', 'PUBLISHED', 'PENDING', 'PUBLISHED']);
    expect(rows[0]).toMatchObject({
      attempts: 0,
      releases: 3,
      lastError: expect.stringContaining('UnknownDestination'),
    });
  });

  test('back-off grows from release to release, and a success after it is a normal one', async () => {
    const { sequence } = await insertEvent(db);
    sqs.on(() => scripted.httpError(503));
    const waits = [];
    for (let n = 0; n < 4; n += 1) {
      const relay = { ...partsWith({ backoffBaseSeconds: 10, backoffMaxSeconds: 100 }), random: () => 0.999 };
      await tick(relay, inFull);
      waits.push(Math.round((await outboxRow(db, sequence)).dueInSeconds / 10) * 10);
      await endBackoffs(db);
    }
    expect(waits).toEqual([20, 40, 80, 100]);
  });

  test.each([
    ['refuses', scripted.httpError(503)],
    ['never answers', scripted.stall()],
  ])('a destination that %s does not hold up another one', async (_, answer) => {
    const events = await insertEvents(db, 60, (n) => ({ destination: n % 2 ? 'mail' : 'stock' }));
    sqs.on(({ queue }) => (queue === 'stock' ? answer : undefined));
    const destinations = destinationsOf(sqs, 'stock', 'mail');
    const counts = await tickOnce({ destinations, claimLimit: 10, claimsUnderway: 2, callTimeoutSeconds: 1 });
    expect(counts.acknowledged).toBe(30);
    expect(sorted(storedIds(sqs, 'mail'))).toEqual(sorted(idsOf(events.filter((_, n) => n % 2))));
    expect(await stateCounts(db)).toEqual({ PUBLISHED: 30, PENDING: 30 });
    // Once nothing got through, it was left in peace for the rest of the run.
    expect(sqs.sends().filter(({ queue }) => queue === 'stock').length).toBeLessThanOrEqual(3);
  });
});

describe('no answer in time', () => {
  // Case B5.
  test.each([
    ['its lease', { leaseSeconds: 2, callTimeoutSeconds: 60 }, inFull],
    ["the invocation's time", { leaseSeconds: 30, callTimeoutSeconds: 60 }, () => 1_100],
    ['the call timeout', { leaseSeconds: 30, callTimeoutSeconds: 0.5 }, inFull],
  ])(
    'the relay gives up before %s is over, acknowledges nothing, and the next tick after it sends the rows',
    async (_, settings, timeLeft) => {
      const events = await insertEvents(db, 12);
      sqs.on(() => scripted.stall());
      const began = performance.now();
      const counts = await tick(partsWith({ ...settings, backoffBaseSeconds: 30 }), timeLeft);
      expect(performance.now() - began).toBeLessThan(5_000);
      expect(counts).toMatchObject({ claimed: 12, published: 0, parked: 0, unanswered: 12 });
      for (const row of await outboxRows(db)) expect(row).toMatchObject({ state: 'PENDING', attempts: 1 });
      sqs.on();
      expect(await tickOnce()).toEqual(noCounts());
      await passTime();
      expect(await tickOnce()).toMatchObject({ claimed: 12, acknowledged: 12 });
      expect(sorted(storedIds(sqs))).toEqual(sorted(idsOf(events)));
    },
  );

  // A queue that stays silent longer: an answer in the end must not find the events queueing up one by one.
  test('after three silent leases, the first tick that is answered sends everything', async () => {
    const events = await insertEvents(db, 12);
    sqs.on(() => scripted.stall());
    for (let n = 0; n < 3; n += 1) {
      await tickOnce({ callTimeoutSeconds: 0.3 });
      await passTime();
    }
    sqs.on();
    await tickOnce();
    expect(sorted(storedIds(sqs))).toEqual(sorted(idsOf(events)));
    expect(await stateCounts(db)).toEqual({ PUBLISHED: 12 });
  });

  test('what was not even tried before the time was over goes back with its attempt', async () => {
    const events = await insertEvents(db, 10);
    // Cut in two for its size; the first half then gets no answer, and the second has no time left.
    sqs.next(scripted.batchRequestTooLong(), scripted.stall());
    const counts = await tickOnce({ callTimeoutSeconds: 0.5 });
    expect(counts).toMatchObject({ claimed: 10, published: 0, unanswered: 5, released: 5 });
    expect(sqs.sends()).toHaveLength(2);
    const attempts = (await outboxRows(db)).map((row) => row.attempts);
    expect(attempts).toEqual(events.map((_, n) => (n < 5 ? 1 : 0)));
  });

  // Case A1.
  test('a queue slower than the lease: attempts are counted at each claim, and after the limit the rows are parked', async () => {
    const settings = { leaseSeconds: 2, callTimeoutSeconds: 60, maxAttempts: 3 };
    const events = await insertEvents(db, 10);
    sqs.on(() => scripted.stall(3_000));
    const began = performance.now();
    expect(await tickOnce(settings)).toMatchObject({ claimed: 10, published: 0, unanswered: 10 });
    // It stopped while the lease was still its own.
    expect(performance.now() - began).toBeLessThan(2_000);
    // The second relay, 2.1 s after the first.
    const second = await until(async () => {
      const counts = await tickOnce(settings);
      return counts.claimed > 0 && counts;
    });
    expect(second).toMatchObject({ claimed: 10 });
    expect(performance.now() - began).toBeGreaterThan(1_900);
    expect((await outboxRows(db)).map(({ attempts }) => attempts)).toEqual(events.map(() => 2));
    // From the third claim on one suspect is tried in a run, and parked when it is claimed once more.
    for (let n = 0; n < 2 * events.length && (await stateCounts(db))['PENDING']; n += 1) {
      await passTime();
      await tickOnce({ ...settings, callTimeoutSeconds: 0.3 });
    }
    for (const row of await outboxRows(db)) {
      expect(row).toMatchObject({ state: 'PARKED', attempts: 3 });
      expect(row.parkReason).toMatch(/AttemptsExhausted: 3/);
    }
  });
});

describe('the claim is lost while the relay stands still', () => {
  // Case A1: published is what the queue took, acknowledged what is written; the difference is told.
  test('a frozen relay is fenced out, counts it and logs it; the row is the next relay\u2019s', async () => {
    const events = await insertEvents(db, 10);
    const frozen = startRelay();
    let isFrozen = false;
    sqs.next(async (exchange) => {
      const answer = await exchange.perform();
      frozen.freeze();
      isFrozen = true;
      exchange.respond(200, answer);
    });
    await until(() => isFrozen, { within: START_WITHIN_MS, message: 'the relay sends' });
    await expireLeases(db);
    expect(await tickOnce()).toMatchObject({ claimed: 10, acknowledged: 10, fencedOut: 0 });
    const settled = await outboxRows(db);
    frozen.thaw();
    const expected = { claimed: 10, published: 10, acknowledged: 0, fencedOut: 10, released: 0, parked: 0 };
    expect(await countsOf(frozen)).toMatchObject(expected);
    const untimed = (rows: typeof settled) =>
      rows.map(({ attempts, messageId, state }) => ({ attempts, messageId, state }));
    expect(untimed(await outboxRows(db))).toEqual(untimed(settled));
    expect(settled.map(({ attempts }) => attempts)).toEqual(events.map(() => 2));

    await until(() => frozen.output().includes('relay.tick'));
    const line =
      frozen
        .output()
        .split('\n')
        .find((text) => text.includes('relay.tick')) ?? '';
    expect(JSON.parse(line)).toMatchObject({ event: 'relay.tick', ...expected });
  });

  // Case A1: it stops sending once its lease is nearly over.
  test('a slow relay hands back what it can no longer send under its lease', async () => {
    const events = await insertEvents(db, 60);
    sqs.latencyMs = 300;
    const counts = await tickOnce({ leaseSeconds: 2, callsInFlight: 1, callTimeoutSeconds: 60 });
    expect(accounted(counts)).toBe(60);
    expect(counts.released).toBeGreaterThan(0);
    // Six calls take 1.8 s. Of the lease's 2 s one is kept for settling.
    expect(sqs.sends().length).toBeLessThanOrEqual(4);
    const tried = sqs.sends().flatMap(callIds);
    for (const row of await outboxRows(db))
      if (!tried.includes(row.eventId))
        expect(row).toMatchObject({ state: 'PENDING', attempts: 0, releases: 0, claimToken: null });
    sqs.latencyMs = 0;
    await expireLeases(db);
    await tickOnce();
    expect(new Set(storedIds(sqs))).toEqual(new Set(idsOf(events)));
  });
});

describe('little time left', () => {
  test('what was sent is settled, what was not is handed back with its attempt, and goes out next', async () => {
    const events = await insertEvents(db, 50);
    // The invocation's time runs out while the second of five calls is under way.
    const timeLeft = () => (sqs.sends().length < 2 ? 20_000 : 100);
    const counts = await tick(partsWith({ callsInFlight: 1 }), timeLeft);
    expect(counts).toEqual({
      ...noCounts(),
      oldestSeconds: expect.any(Number),
      claimed: 50,
      published: 20,
      acknowledged: 20,
      released: 30,
      releasedBy: { Unsent: 30 },
    });
    const back = (await outboxRows(db)).filter(({ state }) => state === 'PENDING');
    expect(back).toHaveLength(30);
    for (const row of back) {
      expect(row).toMatchObject({ attempts: 0, releases: 0, claimToken: null, lastError: null });
      expect(row.dueInSeconds).toBeLessThanOrEqual(0);
    }
    expect(await tickOnce()).toMatchObject({ acknowledged: 30 });
    expect(sorted(storedIds(sqs))).toEqual(sorted(idsOf(events)));
  });

  test('with too little for a pass, nothing is claimed', async () => {
    await insertEvents(db, 3);
    expect(await tick(partsWith(), () => 900)).toEqual(noCounts());
    expect((await outboxRows(db)).map(({ attempts }) => attempts)).toEqual([0, 0, 0]);
  });

  test('a backlog larger than the time ends with the time', async () => {
    await insertEvents(db, 100);
    const relay = partsWith({ claimLimit: 10, claimsUnderway: 1 });
    const counts = await tick(relay, () => (sqs.sends().length < 3 ? 20_000 : 900));
    expect(counts).toMatchObject({ claimed: 30, acknowledged: 30 });
  });
});

test('a backlog of large events goes out whole, in claims of few bytes, with ordering keys and without', async () => {
  const large = { payload: 'x'.repeat(100_000) };
  await insertEvents(db, 20, large);
  for (let n = 0; n < 20; n += 1) await insertEvent(db, { ...large, orderingKey: `key ${n}` });
  const relay = partsWith({ claimBytes: 250_000 });
  const claims: number[] = [];
  const query: Store['query'] = async (text, values) => {
    const rows = await relay.store.query<{ eventId?: string | null }>(text, values);
    claims.push(rows.filter(({ eventId }) => eventId).length);
    return rows as never;
  };
  const counts = await tick({ ...relay, store: { ...relay.store, query } }, inFull);
  expect(counts).toMatchObject({ claimed: 40, acknowledged: 40 });
  expect(Math.max(...claims)).toBe(2);
});

/** Twenty keys of large events for one destination, then one small event with a key for another. */
const recordBoth = async () => {
  for (let n = 0; n < 20; n += 1) {
    await insertEvent(db, { destination: 'stock', payload: 'x'.repeat(900), orderingKey: `key ${n}` });
  }
  await insertEvent(db, { destination: 'mail', payload: 'small', orderingKey: 'one' });
};

describe('large events with ordering keys for one destination, a small one for another', () => {
  test('it goes out in the same run', async () => {
    await recordBoth();
    const counts = await tickOnce({ claimBytes: 4_000, destinations: destinationsOf(sqs, 'stock', 'mail') });
    expect(counts).toMatchObject({ claimed: 21, acknowledged: 21 });
  });

  test('it goes out though the other destination is down', async () => {
    await recordBoth();
    sqs.on(({ queue }) => (queue === 'stock' ? scripted.accessDenied() : undefined));
    const counts = await tickOnce({ claimBytes: 4_000, destinations: destinationsOf(sqs, 'stock', 'mail') });
    expect(counts.acknowledged).toBe(1);
    expect(storedIds(sqs, 'mail')).toHaveLength(1);
  });
});

const losesConnection = () => Promise.reject(new Error('Connection terminated'));

describe('it returns what it did, and throws only when it could do nothing', () => {
  test('a database that does not answer', async () => {
    const nowhere = createPrisma('postgresql://nobody@127.0.0.1:1/nothing', { max: 1 });
    await expect(tick({ ...partsWith(), store: storeOf(nowhere) }, inFull)).rejects.toThrow();
    expect(sqs.calls).toEqual([]);
  });

  test('a database that takes no writes', async () => {
    const own = await createDatabase();
    await insertEvent(own);
    await setReadOnly(own, true);
    const relay = relayParts(createPrisma(own.url, { max: 1 }), sqs);
    await expect(tick(relay, inFull)).rejects.toThrow();
    expect(sqs.calls).toEqual([]);
  });

  // Case E3: counts, not an exception, where some of it went well.
  test('a database that is lost after the claim: counts, and a report; the events come again', async () => {
    const events = await insertEvents(db, 3);
    const relay = partsWith();
    const counts = await tick({ ...relay, store: { ...relay.store, execute: losesConnection } }, inFull);
    expect(counts).toMatchObject({ claimed: 3, published: 3, acknowledged: 0 });
    expect(relay.reported).toEqual([
      { event: 'relay.cut_short', errors: [expect.stringContaining('Connection terminated')] },
    ]);
    await expireLeases(db);
    expect(await tickOnce()).toMatchObject({ acknowledged: 3 });
    expect(sorted(storedIds(sqs))).toEqual(sorted([...idsOf(events), ...idsOf(events)]));
  });

  test('a second claim that fails ends the run after the first is settled', async () => {
    await insertEvents(db, 20);
    const relay = partsWith({ claimLimit: 10 });
    let claims = 0;
    const query: RelayParts['store']['query'] = (text, values) => {
      claims += 1;
      return claims === 1 ? relay.store.query(text, values) : Promise.reject(new Error('Too many clients'));
    };
    const counts = await tick({ ...relay, store: { ...relay.store, query } }, inFull);
    expect(counts).toMatchObject({ claimed: 10, acknowledged: 10 });
    expect(relay.reported).toMatchObject([{ event: 'relay.cut_short' }]);
  });
});

describe('many relays', () => {
  // Case E3.
  test('eight at once over 200 rows: each is sent once, nothing deadlocks', async () => {
    const events = await insertEvents(db, 200);
    sqs.latencyMs = 5;
    const relays = Array.from({ length: 8 }, () =>
      relayParts(createPrisma(db.url, { max: 2 }), sqs, { claimLimit: 10 }),
    );
    const counts = await Promise.all(relays.map((relay) => tick(relay, inFull)));
    const sum = (key: 'claimed' | 'acknowledged' | 'fencedOut') =>
      counts.reduce((total, each) => total + each[key], 0);
    expect([sum('claimed'), sum('acknowledged'), sum('fencedOut')]).toEqual([200, 200, 0]);
    expect(sorted(storedIds(sqs))).toEqual(sorted(idsOf(events)));
    expect(relays.flatMap(({ reported }) => reported)).toEqual([]);
    expect((await outboxRows(db)).map(({ attempts }) => attempts)).toEqual(events.map(() => 1));
    // They did share the work.
    expect(counts.filter(({ claimed }) => claimed > 0).length).toBeGreaterThan(1);
  });
});

describe('transactions that overlap', () => {
  // Case A8.
  test('an event whose transaction commits late goes out on the next tick, and prune leaves it alone', async () => {
    let early = '';
    let late = '';
    await prisma.$transaction(
      async (tx) => {
        const event = { type: 'order.placed', source: '/orders', destinations: ['stock'], payload: 1 };
        [early = ''] = await recordEvents(tx, [event]);
        [late = ''] = await record(2);
        expect(await tickOnce()).toMatchObject({ acknowledged: 1 });
        expect(storedIds(sqs)).toEqual([late]);
        expect(await pruneOutbox(storeOf(prisma), 0, inFull)).toBe(1);
      },
      { timeout: 20_000 },
    );
    expect(await stateCounts(db)).toEqual({ PENDING: 1 });
    expect(await tickOnce()).toMatchObject({ acknowledged: 1 });
    expect(storedIds(sqs)).toEqual([late, early]);
  });
});

/** One tick of a relay that dies, and leaves everything as it is, when it is about to send `poison`. */
function mortalTick(poison: string, settings: Settings): Promise<'died' | TickCounts> {
  const relay = partsWith(settings);
  const sender = relay.senders.get('stock');
  if (!sender) throw new Error('no sender to stock');
  return new Promise((resolve, reject) => {
    const deadly: Sender = {
      ...sender,
      call(messages, signal) {
        const bodies = messages as { MessageBody: string }[];
        if (!bodies.some(({ MessageBody }) => idOfBody(MessageBody) === poison))
          return sender.call(messages, signal);
        resolve('died');
        return new Promise<never>(() => {});
      },
    };
    tick({ ...relay, senders: new Map([['stock', deadly]]) }, inFull).then(resolve, reject);
  });
}

describe('a relay that dies', () => {
  // Case A10.
  test('killed between claim and send: everything is delivered within the lease and one tick', async () => {
    const events = await insertEvents(db, 12);
    const doomed = startRelay({ holdsBeforeSending: true, settings: { leaseSeconds: 2 } });
    await doomed.message((message) => 'holding' in Object(message), START_WITHIN_MS);
    const [lease] = await db.sql<{ left: number }>(
      'SELECT extract(epoch FROM max(lease_until) - clock_timestamp())::float8 * 1000 AS left FROM outbox_event',
    );
    const left = lease?.left ?? 0;
    const killed = performance.now();
    expect(await doomed.kill()).toEqual({ code: null, signal: 'SIGKILL' });
    let ticks = 0;
    await until(
      async () => {
        ticks += 1;
        return (await tickOnce()).acknowledged === 12;
      },
      { within: 10_000, message: 'all delivered' },
    );
    // The first ticks found the rows still held; nothing was sent twice.
    expect(performance.now() - killed).toBeGreaterThanOrEqual(left - 50);
    expect(performance.now() - killed).toBeLessThan(left + 5_000);
    expect(ticks).toBeGreaterThan(left > 100 ? 1 : 0);
    expect(sorted(storedIds(sqs))).toEqual(sorted(idsOf(events)));
  });

  // Case A6.
  test('a row whose send kills the process is parked after three, and healthy rows go out in every tick', async () => {
    const poison = await insertEvent(db);
    let relay: TestProcess | undefined;
    sqs.on((call) =>
      callIds(call).includes(poison.eventId)
        ? async (exchange) => {
            await relay?.kill();
            exchange.reset();
          }
        : undefined,
    );
    const healthy = [];
    for (let n = 1; n <= 6; n += 1) {
      const fresh = await insertEvents(db, 2);
      healthy.push(...fresh);
      await expireLeases(db);
      relay = startRelay({ settings: { maxAttempts: 3 } });
      await relay.exited;
      // The first tick cannot know better than to send them in one call with it.
      if (n > 1)
        for (const { sequence } of fresh) expect((await outboxRow(db, sequence)).state).toBe('PUBLISHED');
    }
    const row = await outboxRow(db, poison.sequence);
    expect(row).toMatchObject({ state: 'PARKED', attempts: 3 });
    expect(row.parkReason).toMatch(/no answer ever came back/);
    expect(sqs.sends().filter((call) => callIds(call).includes(poison.eventId))).toHaveLength(3);
    expect(sorted(storedIds(sqs))).toEqual(sorted(idsOf(healthy)));
    expect(await stateCounts(db)).toEqual({ PUBLISHED: 12, PARKED: 1 });
  }, 60_000);

  // Promise 5.
  test.each([
    ['from the beginning', {}],
    // The answers of an outage that is over say nothing of the claims since: with them as a proof of health, all eight
    // were sent with the deadly one until all eight had no attempts left.
    ['after an outage', { releases: 4, lastError: 'ServiceUnavailable' }],
  ])(
    'a deadly row among seven healthy ones, %s: after six ticks it is parked and they are out',
    async (_, past) => {
      const events = await insertEvents(db, 8, past);
      const poison = events[3]?.eventId ?? '';
      const deaths = [];
      for (let n = 0; n < 6; n += 1) {
        deaths.push((await mortalTick(poison, { maxAttempts: 3 })) === 'died');
        await passTime();
      }
      expect(deaths.filter(Boolean)).toHaveLength(3);
      const rows = await outboxRows(db);
      expect(rows.map(({ state }) => state)).toEqual(
        events.map((_, n) => (n === 3 ? 'PARKED' : 'PUBLISHED')),
      );
      expect(rows[3]?.attempts).toBe(3);
      expect(sorted(storedIds(sqs))).toEqual(sorted(idsOf(events).filter((id) => id !== poison)));
    },
  );

  // Promise 5: they shared two claims with what killed their relay, and must not wait a tick each for that.
  test('healthy rows that went down with two relays all go out with the next one that lives', async () => {
    const events = await insertEvents(db, 12, { attempts: 2 });
    await tickOnce();
    expect(await stateCounts(db)).toEqual({ PUBLISHED: 12 });
    expect(sorted(storedIds(sqs))).toEqual(sorted(idsOf(events)));
    // One at a time all the same: any of them may be the one.
    expect(sqs.sends().map(({ entries }) => entries.length)).toEqual(events.map(() => 1));
  });

  test('a lease that ran out ends no event: attempts left, it is sent; none left, it is parked unsent', async () => {
    const [fresh, spent] = await insertEvents(db, 2, (n) => ({
      ...leased({ secondsLeft: -1 }),
      attempts: n ? 3 : 1,
    }));
    expect(await tickOnce({ maxAttempts: 3 })).toMatchObject({ acknowledged: 1, parked: 1 });
    expect(storedIds(sqs)).toEqual([fresh?.eventId]);
    expect(await outboxRow(db, spent?.sequence)).toMatchObject({ state: 'PARKED', attempts: 3 });
  });
});

/** A relay whose connection to the database fails as `fates` says, statement by statement. */
function unlucky(fates: string[]): RelayParts {
  const relay = partsWith({ claimLimit: 10, maxAttempts: 3 });
  const meet = async <T>(statement: () => Promise<T>): Promise<T> => {
    const lot = fates.shift();
    if (lot === 'lost') throw new Error('Connection terminated before it was sent');
    const result = await statement();
    if (lot === 'answer lost') throw new Error('Connection terminated before the answer');
    return result;
  };
  const inner = relay.store;
  const store: RelayParts['store'] = {
    query: (text, values) => meet(() => inner.query(text, values)),
    execute: (text, values) => meet(() => inner.execute(text, values)),
  };
  return { ...relay, store };
}

// Promise 1.
describe('nothing is lost', () => {
  const answer = fc.oneof(
    fc.constantFrom<() => scripted.Answer>(
      scripted.ok,
      () => scripted.httpError(503),
      scripted.reset,
      scripted.storeThenReset,
      scripted.throttled,
      scripted.accessDenied,
      scripted.batchRequestTooLong,
      () => scripted.storeThenRespond({}),
    ),
    fc
      .dictionary(
        fc.nat(9).map(String),
        fc.constantFrom<scripted.EntryOutcome>(
          'omitted',
          'storedButOmitted',
          'wrongMd5',
          { code: 'InternalError' },
          { code: 'InvalidMessageContents', senderFault: true },
        ),
      )
      .map((byId) => () => scripted.outcomes(byId)),
  );
  /** What becomes of a statement: lost on its way to the database, or its answer lost on the way back. */
  const fate = fc.constantFrom('carried out', 'carried out', 'lost', 'answer lost');
  const trouble = fc.record({
    rows: fc.integer({ min: 1, max: 25 }),
    answers: fc.array(answer, { maxLength: 15 }),
    fates: fc.array(fate, { maxLength: 15 }),
  });

  test('whatever SQS and the database do for a while, each event is in the queue, or parked with a reason', async () => {
    const property = fc.asyncProperty(trouble, async ({ rows, answers, fates }) => {
      await db.sql('TRUNCATE outbox_event');
      const events = await insertEvents(db, rows);
      const script = [...answers];
      sqs.on(() => script.shift()?.());
      const relay = unlucky([...fates]);
      for (let n = 0; n < 4; n += 1) {
        await tick(relay, inFull).catch(() => undefined);
        await passTime();
      }
      sqs.on();
      for (let n = 0; n < 2; n += 1) {
        await tickOnce({ maxAttempts: 3 });
        await passTime();
      }
      const stored = sqs.stored('stock').map(({ body, messageId }) => `${idOfBody(body)} ${messageId}`);
      for (const row of await outboxRows(db)) {
        expect(row.state).not.toBe('PENDING');
        if (row.state === 'PUBLISHED') expect(stored).toContain(`${row.eventId} ${row.messageId}`);
        else expect(row.parkReason).toMatch(/InvalidMessageContents|AttemptsExhausted|BatchRequestTooLong/);
      }
      expect(idsOf(await outboxRows(db))).toEqual(idsOf(events));
    });
    await fc.assert(property, { numRuns: 25 });
  });
});

describe('in which order a claim is sent', () => {
  const MAX_ATTEMPTS = 5;
  const event = fc.record({
    attempts: fc.integer({ min: 1, max: MAX_ATTEMPTS + 2 }),
    lastError: fc.constantFrom(null, 'InternalError'),
  });
  const claims = fc
    .array(event, { maxLength: 30 })
    .map((events) => events.map((each, n) => claimedEvent({ ...each, sequence: BigInt(n) })));

  test('every event has exactly one place', () => {
    fc.assert(
      fc.property(claims, (events) => {
        const { aside, waves } = plan(events, MAX_ATTEMPTS);
        const placed = [...aside.map((settlement) => settlement.event), ...waves.flat()];
        expect(placed.toSorted((a, b) => Number(a.sequence - b.sequence))).toEqual(events);
      }),
    );
  });

  test('who may be what kills the relay goes last and alone, and who was claimed too often not at all', () => {
    fc.assert(
      fc.property(claims, (events) => {
        const { aside, waves } = plan(events, MAX_ATTEMPTS);
        const isSuspect = (each: (typeof events)[number]) => each.lastError === null && each.attempts >= 3;
        const withSuspects = waves.filter((wave) => wave.some(isSuspect));
        expect(withSuspects.every((wave) => wave.length === 1)).toBe(true);
        for (const wave of withSuspects)
          expect(waves.slice(waves.indexOf(wave)).flat().every(isSuspect)).toBe(true);
        expect(waves.flat().every(({ attempts }) => attempts <= MAX_ATTEMPTS)).toBe(true);
        for (const { event: each, outcome } of aside)
          expect(outcome.kind).toBe(each.attempts > MAX_ATTEMPTS ? 'exhausted' : 'unsent');
      }),
    );
  });

  test('new events are sent before those that once went unanswered', () => {
    const doubtful = claimedEvent({ sequence: 1n, attempts: 2 });
    const answered = claimedEvent({ sequence: 2n, attempts: 9, lastError: 'Throttled' });
    const fresh = claimedEvent({ sequence: 3n });
    expect(plan([doubtful, answered, fresh], 10).waves).toEqual([[answered, fresh], [doubtful]]);
  });
});
