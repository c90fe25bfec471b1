import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { acknowledge } from '../functions/relay/acknowledge.ts';
import type { Claim } from '../functions/relay/claim.ts';
import { noCounts } from '../functions/relay/counts.ts';
import type { Outcome, Settlement } from '../functions/relay/outcome.ts';
import { park } from '../functions/relay/park.ts';
import type { RelayParts } from '../functions/relay/parts.ts';
import { release } from '../functions/relay/release.ts';
import { settle } from '../functions/relay/settle.ts';
import { storeOf, type Store } from '../functions/shared/store.ts';
import type { PrismaClient } from '../prisma/client/client.ts';
import { createDatabase, createPrisma, type TestDatabase } from './support/database.ts';
import {
  insertEvent,
  insertEvents,
  leased,
  leaseExpired,
  parked,
  pending,
  published,
} from './support/factories.ts';
import { raiseOn } from './support/knobs.ts';
import {
  claimedEvent,
  claimSome,
  expireLeases,
  outboxRow,
  outboxRows,
  relaySettings,
  stateCounts,
  type OutboxRow,
} from './support/relay.ts';

let db: TestDatabase;
let prisma: PrismaClient;
let store: Store;

beforeAll(async () => {
  db = await createDatabase();
  prisma = createPrisma(db.url, { max: 3 });
  store = storeOf(prisma);
});
beforeEach(() => db.sql('TRUNCATE outbox_event'));

/** A store that fails the test when a statement reaches it. */
const noSql: Store = {
  query: () => Promise.reject(new Error('SQL was sent')),
  execute: () => Promise.reject(new Error('SQL was sent')),
};

type Verb = (store: Store, token: string, sequences: readonly bigint[]) => Promise<number>;

const each = <Row extends object>(sequences: readonly bigint[], row: Row) =>
  sequences.map((sequence) => ({ sequence, ...row }));

/** Every statement that settles, each as a call on sequences alone. */
const verbs: Record<string, Verb> = {
  acknowledge: (on, token, sequences) =>
    acknowledge(on, token, each(sequences, { messageId: 'm-1' }), { keepPublished: true }),
  'acknowledge and delete': (on, token, sequences) =>
    acknowledge(on, token, each(sequences, { messageId: 'm-1' }), { keepPublished: false }),
  'release with back-off': async (on, token, sequences) =>
    (await release(on, token, each(sequences, { delaySeconds: 60, attemptBack: true, error: 'Throttled' })))
      .length,
  'release untried': async (on, token, sequences) =>
    (await release(on, token, each(sequences, { delaySeconds: 0, attemptBack: true, error: null }))).length,
  park: async (on, token, sequences) =>
    (await park(on, token, each(sequences, { reason: 'TooLarge: 2 MB', attemptsBack: 1 }))).length,
};

/** Every column of every row, to see that nothing at all has changed. */
const everything = () => db.sql('SELECT e.*, xmin FROM outbox_event e ORDER BY sequence');

const settleParts = (more: Partial<RelayParts['config']> = {}) => ({
  store,
  config: relaySettings({}, more),
  random: () => 0,
});
const settleWith = async (
  claim: Pick<Claim, 'token'>,
  settlements: Settlement[],
  more: Partial<RelayParts['config']> = {},
) => {
  const counts = noCounts();
  await settle(settleParts(more) as RelayParts, claim as Claim, settlements, counts);
  return counts;
};

const sum = (byReason: Partial<Record<string, number>>) =>
  Object.values(byReason).reduce<number>((total, count) => total + (count ?? 0), 0);

/** A row, and the claim that holds it. */
const claimOne = async (more = {}) => {
  const { sequence } = await insertEvent(db, more);
  return { sequence, ...(await claimSome(store)) };
};

// Promise 3.
describe.each(Object.entries(verbs))('%s', (_, settles) => {
  test('changes the rows of its claim and says how many', async () => {
    await insertEvents(db, 3);
    const { token, events } = await claimSome(store);
    // In any order: rows are touched in that of their sequence.
    const sequences = events.map(({ sequence }) => sequence).toReversed();
    expect(await settles(store, token, sequences)).toBe(3);
    expect((await outboxRows(db)).filter(({ claimToken }) => claimToken !== null)).toEqual([]);
  });

  test('after its claim was lost to another relay, changes nothing', async () => {
    const { sequence } = await insertEvent(db);
    const lost = await claimSome(store);
    await expireLeases(db);
    const current = await claimSome(store);
    expect(current.events).toHaveLength(1);
    const before = await everything();
    expect(await settles(store, lost.token, [sequence])).toBe(0);
    expect(await everything()).toEqual(before);
  });

  test('changes neither settled rows nor those that nobody holds', async () => {
    const token = randomUUID();
    const situations = [pending(), published(), parked(), leased(), leaseExpired()];
    const events = await insertEvents(db, situations.length, (n) => situations[n] ?? {});
    const before = await everything();
    expect(
      await settles(
        store,
        token,
        events.map(({ sequence }) => sequence),
      ),
    ).toBe(0);
    expect(await everything()).toEqual(before);
  });

  test('twice changes once', async () => {
    const { sequence } = await insertEvent(db);
    const { token } = await claimSome(store);
    await settles(store, token, [sequence]);
    const before = await everything();
    expect(await settles(store, token, [sequence])).toBe(0);
    expect(await everything()).toEqual(before);
  });

  test('counts as long as nobody else has claimed, even after the lease', async () => {
    const { sequence } = await insertEvent(db);
    const { token } = await claimSome(store);
    await expireLeases(db);
    expect(await settles(store, token, [sequence])).toBe(1);
  });

  // Case A3: with careless SQL a missing token or list means every row.
  test('a missing token throws before any SQL', async () => {
    for (const token of [undefined, null, '', 0, {}]) {
      await expect(settles(noSql, token as never, [1n])).rejects.toThrow(TypeError);
      await expect(settles(noSql, token as never, [])).rejects.toThrow(TypeError);
    }
  });

  // Case A3.
  test('a missing sequence throws before any SQL, an empty list is nothing to do', async () => {
    for (const sequence of [undefined, null, 1, '1'])
      await expect(settles(noSql, randomUUID(), [sequence as never])).rejects.toThrow(TypeError);
    expect(await settles(noSql, randomUUID(), [])).toBe(0);
  });

  // A table of this size is quickly read, which tempts the planner; joined with the rows' values it read all of them anew.
  test('finds its rows by their key, however many they are', async () => {
    const own = await createDatabase();
    const ownStore = storeOf(createPrisma(own.url, { max: 1 }));
    await own.sql(
      `INSERT INTO outbox_event (event_id, destination, source, type, payload)
       SELECT gen_random_uuid(), 'stock', '/orders', 'order.placed', to_json(repeat('x', 300)) FROM generate_series(1, 10000)`,
    );
    await own.sql('VACUUM ANALYZE outbox_event');
    const { token, events } = await claimSome(ownStore, { limit: 500 });
    const plans: string[] = [];
    const explain = async (text: string, values: readonly unknown[]) => {
      const rows = await own.sql<{ 'QUERY PLAN': string }>(`EXPLAIN ${text}`, [...values]);
      plans.push(rows.map((row) => row['QUERY PLAN']).join('\n'));
      return [];
    };
    await settles(
      { query: explain, execute: async (text, values) => (await explain(text, values)).length },
      token,
      events.map(({ sequence }) => sequence),
    );
    expect(plans).toHaveLength(1);
    expect(plans[0]).toContain('Index Scan using outbox_event_pkey');
    expect(plans[0]).not.toMatch(/Seq Scan|Nested Loop|Join/);
  });

  test('a token that is no uuid changes nothing', async () => {
    const { sequence } = await insertEvent(db);
    await claimSome(store);
    const before = await everything();
    await expect(settles(store, "' OR true --", [sequence])).rejects.toThrow();
    expect(await everything()).toEqual(before);
  });

  test('is made again when PostgreSQL ended it to resolve a conflict', async () => {
    const own = await createDatabase();
    const ownStore = storeOf(createPrisma(own.url, { max: 1 }));
    const { sequence } = await insertEvent(own);
    const { token } = await claimSome(ownStore);
    const raised = await Promise.all([
      raiseOn(own, { table: 'outbox_event', on: 'UPDATE', sqlState: '40P01' }),
      raiseOn(own, { table: 'outbox_event', on: 'DELETE', sqlState: '40001' }),
    ]);
    expect(await settles(ownStore, token, [sequence])).toBe(1);
    expect((await raised[0]()) + (await raised[1]())).toBe(1);
  });
});

describe('what each verb writes', () => {
  test("acknowledge keeps the row as published, with the queue's id of the message", async () => {
    const { sequence, token } = await claimOne();
    await acknowledge(store, token, [{ sequence, messageId: 'm-1' }], { keepPublished: true });
    const row = await outboxRow(db, sequence);
    expect(row).toMatchObject({ state: 'PUBLISHED', messageId: 'm-1', attempts: 1, claimToken: null });
    expect(row.publishedInSeconds).toBeGreaterThan(-30);
    expect(row.publishedInSeconds).toBeLessThanOrEqual(0);
  });

  test('without retention it deletes the row, and no other', async () => {
    const [mine, stolen, other] = await insertEvents(db, 3);
    const { token } = await claimSome(store, { limit: 2 });
    await db.sql('UPDATE outbox_event SET claim_token = gen_random_uuid() WHERE sequence = $1', [
      stolen?.sequence,
    ]);
    const all = [mine, stolen, other].map((event) => ({ sequence: event?.sequence ?? 0n, messageId: 'm' }));
    expect(await acknowledge(store, token, all, { keepPublished: false })).toBe(1);
    expect((await outboxRows(db)).map(({ sequence }) => sequence)).toEqual([
      stolen?.sequence,
      other?.sequence,
    ]);
  });

  test('release with back-off: due later, one release more, the attempt back when asked, the answer kept', async () => {
    const { sequence, token } = await claimOne({ attempts: 4, lastError: 'old' });
    const error = 'RequestThrottled';
    await release(store, token, [{ sequence, delaySeconds: 60, attemptBack: false, error }]);
    const row = await outboxRow(db, sequence);
    expect(row).toMatchObject({ state: 'PENDING', attempts: 5, releases: 1, lastError: error });
    expect(row.dueInSeconds).toBeGreaterThan(30);
    expect(row.dueInSeconds).toBeLessThanOrEqual(60);
    expect(await claimSome(store)).toMatchObject({ events: [] });
  });

  test('release untried: as if it had never been claimed', async () => {
    const { sequence } = await insertEvent(db, { attempts: 2, lastError: 'old', dueInSeconds: -60 });
    const [before] = await db.sql('SELECT * FROM outbox_event');
    const { token } = await claimSome(store);
    await release(store, token, [{ sequence, delaySeconds: 0, attemptBack: true, error: null }]);
    expect(await db.sql('SELECT * FROM outbox_event')).toEqual([before]);
  });

  test('park: out of sight of every later claim, with the reason, the row kept', async () => {
    const { sequence, token } = await claimOne();
    await park(store, token, [{ sequence, reason: 'InvalidMessageContents', attemptsBack: 0 }]);
    expect(await outboxRow(db, sequence)).toMatchObject({
      state: 'PARKED',
      parkReason: 'InvalidMessageContents',
      attempts: 1,
      claimToken: null,
    });
    expect((await claimSome(store)).events).toEqual([]);
  });

  // Case A11: 2 ** 1100 is no number of seconds; the release would fail for ever, and the row go round with its lease.
  test.each([16, 64, 1_100])('the back-off after %i releases makes a valid timestamp', async (releases) => {
    const { sequence, token, events } = await claimOne({ releases });
    const [event] = events;
    expect(event?.releases).toBe(releases);
    const outcome: Outcome = { kind: 'unavailable', reason: '503', whole: true };
    const counts = await settleWith({ token }, event ? [{ event, outcome }] : [], { backoffMaxSeconds: 300 });
    expect(counts.released).toBe(1);
    const row = await outboxRow(db, sequence);
    expect(row.releases).toBe(releases + 1);
    expect(row.dueInSeconds).toBeGreaterThan(0);
    expect(row.dueInSeconds).toBeLessThanOrEqual(300);
  });
});

const named = ({ sequence }: { sequence: bigint }) => `of ${sequence}`;

test('each row is given what is its own', async () => {
  await insertEvents(db, 9);
  const { token, events } = await claimSome(store);
  const thirds = [0, 1, 2].map((third) => events.slice(third * 3, third * 3 + 3).toReversed());
  const [first = [], second = [], last = []] = thirds;
  await acknowledge(
    store,
    token,
    first.map((event) => ({ sequence: event.sequence, messageId: named(event) })),
    { keepPublished: true },
  );
  await release(
    store,
    token,
    second.map((event, n) => ({
      sequence: event.sequence,
      delaySeconds: n * 100,
      attemptBack: n === 1,
      error: named(event),
    })),
  );
  await park(
    store,
    token,
    last.map((event, n) => ({
      sequence: event.sequence,
      reason: named(event),
      attemptsBack: n === 1 ? 1 : 0,
    })),
  );
  const own = events.map(named);
  const attempts = [1, 0, 1];
  expect(await outboxRows(db)).toMatchObject([
    ...own.slice(0, 3).map((messageId) => ({ messageId })),
    ...own
      .slice(3, 6)
      .map((lastError, n) => ({ lastError, attempts: attempts[n], releases: n === 2 ? 0 : 1 })),
    ...own.slice(6).map((parkReason, n) => ({ parkReason, attempts: attempts[n] })),
  ]);
});

describe('settling a claim', () => {
  const outcomeOf: fc.Arbitrary<Outcome> = fc.oneof(
    fc.constant<Outcome>({ kind: 'published', messageId: 'm-1' }),
    fc.constant<Outcome>({ kind: 'refused', reason: 'InvalidMessageContents' }),
    fc.boolean().map<Outcome>((whole) => ({ kind: 'unavailable', reason: 'InternalError', whole })),
    fc.constant<Outcome>({ kind: 'unanswered', reason: 'no answer in time' }),
    fc.constant<Outcome>({ kind: 'exhausted' }),
    fc.constant<Outcome>({ kind: 'unsent' }),
  );
  /** An event after `attempts` claims, what became of it, and whether another relay has taken it over since. */
  const event = fc.record({
    attempts: fc.integer({ min: 1, max: 4 }),
    lastError: fc.constantFrom(null, 'an earlier answer'),
    outcome: outcomeOf,
    stolen: fc.boolean(),
  });
  type Event = typeof event extends fc.Arbitrary<infer E> ? E : never;
  const MAX_ATTEMPTS = 3;

  // What was not answered needs no settling that another's claim could fence out.
  const isStolen = ({ stolen, outcome }: Event) => stolen && outcome.kind !== 'unanswered';

  /** The verb an outcome belongs under, said once more in the test's own words. */
  const verbFor = ({ outcome, attempts }: Event) => {
    if (outcome.kind === 'published') return 'acknowledge';
    if (outcome.kind === 'unanswered') return 'wait';
    if (outcome.kind === 'refused' || outcome.kind === 'exhausted') return 'park';
    const spent = outcome.kind === 'unavailable' && !outcome.whole && attempts >= MAX_ATTEMPTS;
    return spent ? 'park' : 'release';
  };

  /** The verb under which a row ended. */
  const verbOf = (row: OutboxRow | undefined, { outcome }: Event, token: string) => {
    if (row?.state === 'PUBLISHED') return 'acknowledge';
    if (row?.state === 'PARKED') return 'park';
    const isHeld = row?.claimToken === token || (row?.dueInSeconds ?? 0) > 0;
    if (outcome.kind === 'unanswered' && isHeld) return 'wait';
    return row?.claimToken === null ? 'release' : 'fenced out';
  };

  test('every event ends under exactly one verb, and the counts say which', async () => {
    const property = fc.asyncProperty(fc.array(event, { maxLength: 25 }), async (events) => {
      await db.sql('TRUNCATE outbox_event');
      const token = randomUUID();
      const inserted = await insertEvents(db, events.length, (n) => ({
        ...leased(),
        ...(events[n] && !isStolen(events[n]) ? { claimToken: token } : {}),
        attempts: events[n]?.attempts ?? 0,
        lastError: events[n]?.lastError ?? null,
      }));
      const settlements = events.map(({ attempts, lastError, outcome }, n) => ({
        event: claimedEvent({ sequence: inserted[n]?.sequence ?? 0n, attempts, lastError }),
        outcome,
      }));
      const counts = await settleWith({ token }, settlements, { maxAttempts: MAX_ATTEMPTS });

      const rows = await outboxRows(db);
      const ends = events.map((each, n) => verbOf(rows[n], each, token));
      const expected = events.map((each) => (isStolen(each) ? 'fenced out' : verbFor(each)));
      expect(ends).toEqual(expected);
      const ended = (verb: string) => expected.filter((each) => each === verb).length;
      expect(counts).toEqual({
        ...noCounts(),
        published: events.filter(({ outcome }) => outcome.kind === 'published').length,
        acknowledged: ended('acknowledge'),
        fencedOut: ended('fenced out'),
        released: ended('release'),
        releasedBy: expect.any(Object),
        parked: ended('park'),
        parkedBy: expect.any(Object),
        unanswered: ended('wait'),
      });
      expect([sum(counts.releasedBy), sum(counts.parkedBy)]).toEqual([counts.released, counts.parked]);
      for (const row of rows.filter(({ state }) => state === 'PARKED')) expect(row.parkReason).toMatch(/\S/);
    });
    await fc.assert(property, { numRuns: 40 });
  });

  test('the attempt is given back exactly where nothing was learnt of the event', async () => {
    const outcomes: [Outcome, number][] = [
      [{ kind: 'published', messageId: 'm' }, 2],
      [{ kind: 'refused', reason: 'bad' }, 2],
      [{ kind: 'unavailable', reason: '503', whole: true }, 1],
      [{ kind: 'unavailable', reason: 'InternalError', whole: false }, 2],
      [{ kind: 'unanswered', reason: 'no answer in time' }, 2],
      [{ kind: 'unsent' }, 1],
    ];
    await insertEvents(db, outcomes.length, { attempts: 1 });
    const claim = await claimSome(store);
    const settlements = claim.events.map((each, n) => ({
      event: each,
      outcome: outcomes[n]?.[0] ?? { kind: 'unsent' as const },
    }));
    await settleWith(claim, settlements);
    expect((await outboxRows(db)).map(({ attempts }) => attempts)).toEqual(outcomes.map(([, n]) => n));
  });

  // Case A1: two of five rows were taken over while the queue took its time.
  test('what the queue took and another relay holds is fenced out, not acknowledged', async () => {
    await insertEvents(db, 5);
    const claim = await claimSome(store);
    await db.sql(
      'UPDATE outbox_event SET claim_token = gen_random_uuid() WHERE sequence IN (SELECT sequence FROM outbox_event ORDER BY sequence LIMIT 2)',
    );
    const outcome: Outcome = { kind: 'published', messageId: 'm-1' };
    const counts = await settleWith(
      claim,
      claim.events.map((each) => ({ event: each, outcome })),
    );
    expect(counts).toMatchObject({ published: 5, acknowledged: 3, fencedOut: 2 });
    expect(await stateCounts(db)).toEqual({ PUBLISHED: 3, PENDING: 2 });
  });

  test('parked for want of attempts, it says what the last answer was, or that there never was one', async () => {
    // The second as a relay left it that died between this claim and parking it (found by the campaign).
    await insertEvents(db, 2, (n) => ({ attempts: 3 + n, lastError: n === 0 ? null : 'InternalError' }));
    const claim = await claimSome(store);
    const settlements = claim.events.map((each) => ({
      event: each,
      outcome: { kind: 'exhausted' as const },
    }));
    await settleWith(claim, settlements, { maxAttempts: 3 });
    const rows = await outboxRows(db);
    expect(rows[0]?.parkReason).toMatch(/AttemptsExhausted: 3.*no answer ever came back/);
    expect(rows[1]?.parkReason).toMatch(/AttemptsExhausted: 3.*InternalError/);
    // It was not sent this time: three claims may have sent it, not four.
    expect(rows.map(({ attempts }) => attempts)).toEqual([3, 3]);
  });

  test('nothing to settle needs no database', async () => {
    const counts = noCounts();
    const parts = { ...settleParts(), store: noSql } as RelayParts;
    await settle(parts, { token: randomUUID() } as Claim, [], counts);
    expect(counts).toEqual(noCounts());
  });
});

// STYLE.md rule 5.
describe('the table refuses what cannot be', () => {
  const lease = 'claim_token = gen_random_uuid(), lease_until = now()';
  test.each([
    ['a state that nobody knows', 'outbox_event_state_known', "state = 'CLAIMED'"],
    ['less than no attempts', 'outbox_event_attempts_counted', 'attempts = -1'],
    ['a token without a lease', 'outbox_event_lease_whole', 'claim_token = gen_random_uuid()'],
    ['a lease without a token', 'outbox_event_lease_whole', 'lease_until = now()'],
    [
      'a published row that is still held',
      'outbox_event_lease_only_pending',
      `state = 'PUBLISHED', published_at = now(), ${lease}`,
    ],
    [
      'a parked row that is still held',
      'outbox_event_lease_only_pending',
      `state = 'PARKED', parked_at = now(), park_reason = 'x', ${lease}`,
    ],
    ['published at no time', 'outbox_event_published_when', "state = 'PUBLISHED'"],
    ['pending, yet published at a time', 'outbox_event_published_when', 'published_at = now()'],
    ["pending, with a queue's id", 'outbox_event_message_only_published', "message_id = 'm'"],
    ['parked at no time', 'outbox_event_parked_when', "state = 'PARKED'"],
    ['pending, yet parked at a time', 'outbox_event_parked_when', "parked_at = now(), park_reason = 'x'"],
    ['parked for no reason', 'outbox_event_parked_why', "state = 'PARKED', parked_at = now()"],
    ['a reason without parking', 'outbox_event_parked_why', "park_reason = 'x'"],
    [
      'the same event twice for a destination',
      'outbox_event_once',
      'event_id = (SELECT max(event_id::text)::uuid FROM outbox_event)',
    ],
    ['due at no time', null, 'due_at = NULL'],
    ['fewer than no releases', 'outbox_event_releases_counted', 'releases = -1'],
  ])('%s', async (_, constraint, change) => {
    const [first] = (await insertEvents(db, 2)).toSorted((a, b) => a.eventId.localeCompare(b.eventId));
    const changed = db.sql(`UPDATE outbox_event SET ${change} WHERE sequence = $1`, [first?.sequence]);
    await expect(changed).rejects.toMatchObject(constraint ? { constraint } : { code: '23502' });
  });
});
