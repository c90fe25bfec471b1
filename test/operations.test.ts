// What a person has: to find an event, to send a parked one again or throw it away, and to be told, once, of what needs
// one. What the relay says about itself are events like any other.

import { randomUUID } from 'node:crypto';
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { startEventBridge } from '../infra/local/eventbridge.ts';
import { readEnvelope, type Envelope } from '../functions/outbox/envelope.ts';
import { discardParked, findEvent, replayParked, type EventSelection } from '../functions/outbox/operate.ts';
import { recordEvents } from '../functions/outbox/record.ts';
import type { ClaimedEvent } from '../functions/relay/claim.ts';
import type { RelayConfig } from '../functions/relay/config.ts';
import type { TickCounts } from '../functions/relay/counts.ts';
import type { Destination } from '../functions/relay/destination.ts';
import { noCounts } from '../functions/relay/counts.ts';
import { tellIfLate } from '../functions/relay/operations.ts';
import { park, type Parking } from '../functions/relay/park.ts';
import { tick } from '../functions/relay/tick.ts';
import { storeOf, type Store } from '../functions/shared/store.ts';
import type { PrismaClient } from '../prisma/client/client.ts';
import { afterwards } from './support/cleanup.ts';
import { createDatabase, createPrisma, type TestDatabase } from './support/database.ts';
import {
  dueIn,
  insertEvent,
  insertEvents,
  leased,
  leaseExpired,
  parked,
  pending,
  published,
  type EventColumns,
} from './support/factories.ts';
import { raiseOn } from './support/knobs.ts';
import {
  claimSome,
  destinationsOf,
  endBackoffs,
  expireLeases,
  idOfBody,
  outboxRow,
  outboxRows,
  relayParts,
  stateCounts,
  type OutboxRow,
} from './support/relay.ts';
import { fail, startScriptedSqs, throttled, type ScriptedSqs } from './support/scripted-sqs.ts';

const PARKED = 'outbox.event.parked';
const LATE = 'outbox.backlog.late';
/** Seconds. */
const LIMIT = 300;

let db: TestDatabase;
let prisma: PrismaClient;
let store: Store;
let sqs: ScriptedSqs;

beforeAll(async () => {
  db = await createDatabase();
  prisma = createPrisma(db.url, { max: 6 });
  store = storeOf(prisma);
});
beforeEach(async () => {
  await db.sql('TRUNCATE outbox_event, applied_event RESTART IDENTITY');
  sqs = await startScriptedSqs({ queues: { stock: {}, billing: {}, ops: {} } });
});
afterEach(() => void vi.unstubAllEnvs());

/** A relay to 'stock', 'billing' and 'ops'; 'ops' is told, unless the settings say otherwise. */
const relayWith = (settings: Partial<RelayConfig> = {}) =>
  relayParts(prisma, sqs, {
    destinations: destinationsOf(sqs, 'stock', 'billing', 'ops'),
    operationsDestination: 'ops',
    backlogLateSeconds: LIMIT,
    backoffBaseSeconds: 60,
    ...settings,
  });
/** The same without anybody to tell. */
function unwatched() {
  const relay = relayWith();
  const { operationsDestination: _, ...config } = relay.config;
  return { ...relay, config };
}
const tickOnce = (settings: Partial<RelayConfig> = {}): Promise<TickCounts> =>
  tick(relayWith(settings), () => 20_000);

/** The queue refuses these events, by id, as their sender's fault. */
const refuse = (...eventIds: string[]) =>
  sqs.on(({ entries }) =>
    fail(
      Object.fromEntries(
        entries
          .filter(({ MessageBody }) => eventIds.includes(idOfBody(MessageBody)))
          .map(({ Id }) => [Id, { code: 'Poison', senderFault: true }]),
      ),
    ),
  );

/** Everything recorded of this type, in order, with its payload. */
const recorded = (type: string) =>
  db.sql<{ eventId: string; destination: string; payload: Record<string, unknown> }>(
    'SELECT event_id AS "eventId", destination, payload FROM outbox_event WHERE type = $1 ORDER BY sequence',
    [type],
  );

/** What a consumer of the operations queue reads; what it could not read fails the test. */
const told = (type: string): Envelope[] =>
  sqs
    .stored('ops')
    .map(({ body }) => {
      const read = readEnvelope(body);
      if ('problem' in read) throw new Error(`${read.problem}: ${body}`);
      return read.envelope;
    })
    .filter((envelope) => envelope.type === type);

/** What does not change by itself. */
const timeless = ({
  state,
  attempts,
  releases,
  claimToken,
  messageId,
  parkReason,
  lastError,
}: OutboxRow) => ({
  state,
  attempts,
  releases,
  claimToken,
  messageId,
  parkReason,
  lastError,
});

const refusing = () => Promise.reject(new Error('SQL was sent'));

const parking = ({ sequence }: Pick<ClaimedEvent, 'sequence'>, reason: string): Parking => ({
  sequence,
  reason,
  attemptsBack: 0,
});

/** Due, and recorded, so many seconds ago. */
const late = (seconds: number): Partial<EventColumns> => ({
  recordedInSeconds: -seconds,
  dueInSeconds: -seconds,
});

const stockIsDown = () => sqs.on(({ queue }) => (queue === 'stock' ? throttled() : undefined));

describe('where is event X?', () => {
  test('at each of its destinations: waiting, held, sent or parked, and who applied it', async () => {
    const eventId = randomUUID();
    const situations = [
      dueIn(60, { destination: 'a', orderingKey: 'ORDER-7', lastError: 'Throttled' }),
      leased({ destination: 'b' }),
      published({ destination: 'c', messageId: 'm-1' }),
      parked({ destination: 'd', reason: 'TooLarge: by far' }),
    ];
    await insertEvents(db, 4, (index) => ({ eventId, ...situations[index] }));
    await insertEvent(db);
    await db.sql(
      "INSERT INTO applied_event VALUES ('stock', '/orders', $1), ('mail', '/orders', $1), ('stock', '/other', $1)",
      [eventId],
    );
    const rfc3339 = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/) as string;
    const row = {
      eventId,
      type: 'order.placed',
      orderingKey: null,
      state: 'PENDING',
      recordedAt: rfc3339,
      dueAt: rfc3339,
      attempts: 0,
      leaseUntil: null,
      publishedAt: null,
      messageId: null,
      parkReason: null,
      lastError: null,
      appliedBy: ['mail', 'stock'],
    };
    expect(await findEvent(store, eventId)).toEqual([
      { ...row, sequence: 1n, destination: 'a', orderingKey: 'ORDER-7', lastError: 'Throttled' },
      { ...row, sequence: 2n, destination: 'b', attempts: 1, leaseUntil: rfc3339 },
      {
        ...row,
        sequence: 3n,
        destination: 'c',
        attempts: 1,
        state: 'PUBLISHED',
        publishedAt: rfc3339,
        messageId: 'm-1',
      },
      {
        ...row,
        sequence: 4n,
        destination: 'd',
        attempts: 1,
        state: 'PARKED',
        parkReason: 'TooLarge: by far',
        lastError: 'TooLarge: by far',
      },
    ]);
  });

  test('nowhere, when it was never recorded', async () => {
    await insertEvent(db);
    expect(await findEvent(store, randomUUID())).toEqual([]);
  });
});

describe('a person sends parked events again, or throws them away', () => {
  const ID = '00000000-0000-4000-8000-000000000023';

  /** Parked rows 1 to 4, and after them what must never change: waiting, held and sent rows that fit each selection. */
  async function insertParked(): Promise<void> {
    const first = { eventId: ID, destination: 'stock', type: 'order.placed' };
    const rows: Partial<EventColumns>[] = [
      parked({ ...first, reason: 'TooLarge: by far', attempts: 3, releases: 2 }),
      parked({ eventId: ID, destination: 'billing', reason: 'Poison: bad' }),
      parked({ destination: 'stock', type: 'order.paid', reason: 'Poison: worse' }),
      parked({ destination: 'stock', type: 'order.placed', reason: 'Too%: many' }),
      ...[pending, leased, leaseExpired, published].map((situation) =>
        situation({ ...first, eventId: randomUUID() }),
      ),
    ];
    await insertEvents(db, rows.length, (index) => rows[index] ?? {});
  }

  const selections: [selection: EventSelection, sequences: bigint[]][] = [
    [{ eventId: ID }, [1n, 2n]],
    [{ destination: 'stock' }, [1n, 3n, 4n]],
    [{ type: 'order.paid' }, [3n]],
    [{ reason: 'TooLarge' }, [1n]],
    [{ reason: 'Poison: ' }, [2n, 3n]],
    [{ reason: 'Too%' }, [4n]],
    [{ reason: 'oison' }, []],
    [{ eventId: ID, destination: 'billing' }, [2n]],
    [{ destination: 'stock', type: 'order.placed', reason: 'Too' }, [1n, 4n]],
    [{ eventId: randomUUID() }, []],
  ];

  test.each(selections)('again: %o', async (selection, sequences) => {
    await insertParked();
    const before = await outboxRows(db);
    expect(await replayParked(store, selection)).toBe(sequences.length);
    for (const row of before) {
      const now = await outboxRow(db, row.sequence);
      if (!sequences.includes(row.sequence)) expect(timeless(now)).toEqual(timeless(row));
      else {
        expect(now).toMatchObject({
          state: 'PENDING',
          attempts: 0,
          releases: 0,
          parkReason: null,
          lastError: null,
          claimToken: null,
        });
        expect(now.dueInSeconds).toBeLessThanOrEqual(0);
      }
    }
  });

  test.each(selections)('thrown away: %o', async (selection, sequences) => {
    await insertParked();
    expect(await discardParked(store, selection)).toBe(sequences.length);
    const left = (await outboxRows(db)).map(({ sequence }) => sequence);
    expect(left).toEqual(
      [1n, 2n, 3n, 4n, 5n, 6n, 7n, 8n].filter((sequence) => !sequences.includes(sequence)),
    );
  });

  const verbs = { replayParked, discardParked };

  test.each(Object.entries(verbs))('%s goes through thousands, all of them', async (_, verb) => {
    await insertEvents(db, 2_300, parked());
    await insertEvents(db, 5, published());
    expect(await verb(store, { destination: 'stock' })).toBe(2_300);
    expect((await stateCounts(db))['PARKED']).toBeUndefined();
    expect((await stateCounts(db))['PUBLISHED']).toBe(5);
  });

  // A command line hands over empty text for an option that was left out.
  test.each([
    {},
    { eventId: undefined, destination: undefined, type: undefined, reason: undefined },
    { reason: '' },
  ])('%o selects nothing in particular, and is refused before any SQL', async (selection) => {
    for (const verb of Object.values(verbs)) {
      const made = verb({ query: refusing, execute: refusing }, selection as EventSelection);
      await expect(made).rejects.toThrow(TypeError);
    }
  });

  test('an event sent again arrives, with every attempt it had before', async () => {
    const { eventId } = await insertEvent(db, parked({ attempts: 10 }));
    await replayParked(store, { eventId });
    expect(await tickOnce({ maxAttempts: 2 })).toMatchObject({ acknowledged: 1 });
    expect(await outboxRows(db)).toMatchObject([{ eventId, state: 'PUBLISHED', attempts: 1 }]);
  });
});

describe('a parked event is told of', () => {
  test('once, however many ticks and relays there are, with what a person needs', async () => {
    const { eventId } = await insertEvent(db, { orderingKey: 'ORDER-7', source: '/orders/eu' });
    await insertEvent(db);
    refuse(eventId);
    await tickOnce();
    for (let n = 0; n < 3; n += 1) await Promise.all([tickOnce(), tickOnce(), tickOnce()]);
    expect(told(PARKED)).toMatchObject([
      {
        source: '/outbox',
        data: {
          eventId,
          destination: 'stock',
          type: 'order.placed',
          source: '/orders/eu',
          orderingKey: 'ORDER-7',
          attempts: 1,
          reason: 'Poison: Poison by script',
        },
      },
    ]);
    expect(await stateCounts(db)).toEqual({ PARKED: 1, PUBLISHED: 2 });
  });

  test.each<[string, Partial<EventColumns>, RegExp]>([
    ['too large', { payload: 'x'.repeat(5_000) }, /^TooLarge: /],
    ['claimed too often', leaseExpired({ attempts: 2 }), /^AttemptsExhausted: 2; no answer ever came back/],
  ])('also when it was never sent: %s', async (_, situation, reason) => {
    const { eventId } = await insertEvent(db, situation);
    const destinations = destinationsOf(sqs, 'stock', 'ops');
    if (destinations['stock']) destinations['stock'] = { ...destinations['stock'], maxBytes: 4_096 };
    const settings = { destinations, maxAttempts: 2 };
    await tickOnce(settings);
    await tickOnce(settings);
    expect(told(PARKED)).toMatchObject([
      { data: { eventId, reason: expect.stringMatching(reason) as string } },
    ]);
  });

  test('each time: at each destination, and again when it is parked again', async () => {
    const eventId = randomUUID();
    await prisma.$transaction((tx) =>
      recordEvents(tx, [
        {
          id: eventId,
          type: 'order.placed',
          source: '/orders',
          destinations: ['stock', 'billing'],
          payload: 1,
        },
      ]),
    );
    sqs.on(({ queue, entries }) =>
      queue === 'ops'
        ? undefined
        : fail(Object.fromEntries(entries.map(({ Id }) => [Id, { code: 'Poison', senderFault: true }]))),
    );
    await tickOnce();
    await tickOnce();
    const places = () => told(PARKED).map(({ data }) => (data as { destination: string }).destination);
    expect(places().toSorted()).toEqual(['billing', 'stock']);
    await replayParked(store, { eventId, destination: 'stock' });
    await tickOnce();
    await tickOnce();
    expect(places().toSorted()).toEqual(['billing', 'stock', 'stock']);
    expect(new Set(told(PARKED).map(({ id }) => id)).size).toBe(3);
  });

  test.each(['row', 'commit'] as const)(
    'or it is not parked: a failure at the %s of the one undoes the other',
    async (at) => {
      // The trigger stays, so the database is this test's own.
      const mine = await createDatabase();
      const { eventId } = await insertEvent(mine);
      refuse(eventId);
      const acted = await raiseOn(mine, {
        table: 'outbox_event',
        when: `NEW.type = '${PARKED}'`,
        sqlState: '53100',
        at,
      });
      const relay = { ...relayWith(), store: storeOf(createPrisma(mine.url)) };
      await tick(relay, () => 20_000);
      expect(await acted()).toBe(1);
      expect(await outboxRows(mine)).toMatchObject([
        { eventId, state: 'PENDING', attempts: 1, parkReason: null },
      ]);

      await expireLeases(mine);
      await tick(relay, () => 20_000);
      await tick(relay, () => 20_000);
      expect(await stateCounts(mine)).toEqual({ PARKED: 1, PUBLISHED: 1 });
      expect(told(PARKED)).toMatchObject([{ data: { eventId, attempts: 2 } }]);
    },
  );

  test('not by a relay that had lost it: who settles it, tells', async () => {
    await insertEvents(db, 2);
    const slow = await claimSome(store);
    const [lost, kept] = slow.events;
    if (!lost || !kept) throw new Error('two were not claimed');
    await db.sql("UPDATE outbox_event SET lease_until = now() - interval '1 second' WHERE sequence = $1", [
      Number(lost.sequence),
    ]);
    const quick = await claimSome(store);
    const parkings = [parking(lost, 'late'), parking(kept, 'in time')];
    expect(await park(store, slow.token, parkings, 'ops')).toHaveLength(1);
    expect(await recorded(PARKED)).toMatchObject([{ payload: { eventId: kept.eventId, reason: 'in time' } }]);
    expect(await park(store, quick.token, [parking(lost, 'by the other')], 'ops')).toHaveLength(1);
    expect(await park(store, slow.token, parkings, 'ops')).toHaveLength(0);
    expect((await recorded(PARKED)).map(({ payload }) => payload['reason'])).toEqual([
      'in time',
      'by the other',
    ]);
  });

  test('but nobody is told of the telling: a parked operational event ends it', async () => {
    const { eventId } = await insertEvent(db);
    sqs.on(({ entries }) =>
      fail(Object.fromEntries(entries.map(({ Id }) => [Id, { code: 'Poison', senderFault: true }]))),
    );
    for (let n = 0; n < 4; n += 1) await tickOnce();
    expect(await recorded(PARKED)).toMatchObject([{ payload: { eventId } }]);
    expect(await stateCounts(db)).toEqual({ PARKED: 2 });
  });

  // One bus may well carry both.
  test('also when it was bound for the destination that is told', async () => {
    const { eventId } = await insertEvent(db, { destination: 'ops' });
    refuse(eventId);
    await tickOnce();
    await tickOnce();
    expect(told(PARKED)).toMatchObject([{ data: { eventId, destination: 'ops' } }]);
  });

  test('to nobody when nobody is configured', async () => {
    const { eventId } = await insertEvent(db, { dueInSeconds: -10 * LIMIT });
    refuse(eventId);
    await tick(unwatched(), () => 20_000);
    expect(await outboxRows(db)).toMatchObject([{ eventId, state: 'PARKED' }]);
  });

  test('on an event bus, where a rule can match it', async () => {
    const bus = await startEventBridge({ buses: ['operations'] });
    afterwards(bus.stop);
    vi.stubEnv('AWS_ENDPOINT_URL_EVENTBRIDGE', bus.url);
    vi.stubEnv('AWS_REGION', 'us-east-1');
    vi.stubEnv('AWS_ACCESS_KEY_ID', 'test');
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'test');
    const ops: Destination = {
      kind: 'eventbridge',
      busName: 'operations',
      maxBytes: 262_144,
      parkedHead: 'hold',
    };
    const settings = { destinations: { ...destinationsOf(sqs, 'stock'), ops } };
    const { eventId } = await insertEvent(db, { recordedInSeconds: -400, dueInSeconds: -400 });
    refuse(eventId);
    await tickOnce(settings);
    await tickOnce(settings);
    expect(bus.events).toHaveLength(2);
    expect(bus.events).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ Source: '/outbox', DetailType: PARKED }),
        expect.objectContaining({ Source: '/outbox', DetailType: LATE }),
      ]),
    );
  });
});

describe('a late backlog is told of', () => {
  test('once while the same event is late, however many ticks and relays see it', async () => {
    await insertEvent(db, late(LIMIT + 100));
    stockIsDown();
    for (let n = 0; n < 3; n += 1) {
      await Promise.all([tickOnce(), tickOnce(), tickOnce(), tickOnce()]);
      await endBackoffs(db);
    }
    await tickOnce();
    const [fact, ...more] = await recorded(LATE);
    expect(more).toEqual([]);
    expect(fact).toMatchObject({ destination: 'ops', payload: { limitSeconds: LIMIT } });
    const oldestSeconds = Number(fact?.payload['oldestSeconds']);
    expect(oldestSeconds).toBeGreaterThan(LIMIT + 99);
    expect(oldestSeconds).toBeLessThan(LIMIT + 130);
    expect(sqs.stored('ops')).toHaveLength(1);
  });

  test('once also when one tick takes longer than another', async () => {
    // Due a second before the end of one of the limit's own intervals, by which facts are told apart.
    const [due] = await db.sql<{ ago: number }>(
      `SELECT e - (ceil((e - 700) / ${LIMIT}) * ${LIMIT} - 1) AS ago FROM (SELECT extract(epoch FROM now())::float8 AS e) AS t`,
    );
    await insertEvent(db, late(due?.ago ?? 0));
    stockIsDown();
    await tickOnce();
    await endBackoffs(db);
    sqs.latencyMs = 1_500;
    await tickOnce();
    expect(await recorded(LATE)).toHaveLength(1);
  });

  test('once also when rows are deleted as they are acknowledged', async () => {
    await insertEvent(db, late(LIMIT + 100));
    stockIsDown();
    for (let n = 0; n < 3; n += 1) {
      await tickOnce({ keepPublished: false });
      await endBackoffs(db);
    }
    expect(sqs.stored('ops')).toHaveLength(1);
  });

  // Back-offs end one by one, so the oldest that a tick happens to claim is now this event, now that.
  test('once while the same events are late, whichever of them a tick meets', async () => {
    await insertEvents(db, 5, (index) => late(LIMIT * (index + 1.5)));
    stockIsDown();
    await tickOnce();
    for (const sequence of [1, 4, 2, 5, 3]) {
      await db.sql('UPDATE outbox_event SET due_at = now() WHERE sequence = $1', [sequence]);
      await tickOnce();
    }
    expect(await recorded(LATE)).toHaveLength(1);
  });

  test('again a day later', async () => {
    await insertEvent(db, late(86_400 + LIMIT));
    await tickOnce();
    await insertEvent(db, late(LIMIT + 100));
    await tickOnce();
    await tickOnce();
    expect(await recorded(LATE)).toHaveLength(2);
    expect(await stateCounts(db)).toEqual({ PUBLISHED: 4 });
  });

  test('so that a consumer can read it, whenever it was', async () => {
    for (let n = 1; n <= 12; n += 1) {
      const counts = { ...noCounts(), oldestSeconds: LIMIT + 1 };
      await tellIfLate(relayWith(), counts, n * 86_400);
    }
    await tickOnce();
    expect(told(LATE)).toHaveLength(12);
  });

  test('not while it is young', async () => {
    await insertEvents(db, 3, late(LIMIT - 60));
    await insertEvent(db, dueIn(3_600, { recordedInSeconds: -5 * LIMIT }));
    stockIsDown();
    await tickOnce();
    expect(await recorded(LATE)).toEqual([]);
  });

  test.each<[string, Partial<EventColumns>]>([
    ['was to wait for an hour, has just fallen due', { recordedInSeconds: -3_600 }],
    ['was replayed after an hour', { recordedInSeconds: -3_600 }],
  ])('not of an event that %s, and then had one bad answer', async (how, situation) => {
    const replayed = how.includes('replayed');
    const { eventId } = await insertEvent(db, replayed ? parked(situation) : situation);
    if (replayed) await replayParked(store, { eventId });
    stockIsDown();
    await tickOnce();
    await endBackoffs(db);
    await tickOnce();
    expect(await outboxRows(db)).toMatchObject([{ eventId, state: 'PENDING', releases: 2 }]);
  });

  test('to nobody when nobody is configured', async () => {
    await insertEvent(db, late(10 * LIMIT));
    await tick(unwatched(), () => 20_000);
    expect(await outboxRows(db)).toMatchObject([{ state: 'PUBLISHED' }]);
  });
});
