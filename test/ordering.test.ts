// Promise 7: events with the same ordering key reach a FIFO destination in commit order.

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, test } from 'vitest';
import { replayParked, discardParked } from '../functions/outbox/operate.ts';
import { recordEvents } from '../functions/outbox/record.ts';
import type { RelayConfig } from '../functions/relay/config.ts';
import type { Destination } from '../functions/relay/destination.ts';
import { claimHeads, type KeyRange } from '../functions/relay/heads.ts';
import type { RelayParts } from '../functions/relay/parts.ts';
import { tick } from '../functions/relay/tick.ts';
import { countdown } from '../functions/shared/deadline.ts';
import { storeOf, type Store } from '../functions/shared/store.ts';
import type { PrismaClient } from '../prisma/client/client.ts';
import { gate } from './support/consumer.ts';
import { createDatabase, createPrisma, openSession, type TestDatabase } from './support/database.ts';
import {
  claimSome,
  destinationsOf,
  endBackoffs,
  outboxRows,
  relayParts,
  stateCounts,
} from './support/relay.ts';
import {
  fail,
  ok,
  startScriptedSqs,
  storeThenReset,
  storeThenStall,
  type ScriptedSqs,
} from './support/scripted-sqs.ts';
import { soon, until } from './support/wait.ts';

const QUEUE = 'ledger.fifo';

const fifo = (sqs: ScriptedSqs, settings: Partial<Destination> = {}): { ledger: Destination } => ({
  ledger: {
    kind: 'sqs',
    queueUrl: sqs.queueUrl(QUEUE),
    maxBytes: 1_048_576,
    parkedHead: 'hold',
    ...settings,
  } as Destination,
});

/** Records `payloads` in order, one transaction each, under one key. */
async function recordInOrder(
  prisma: PrismaClient,
  orderingKey: string,
  ...payloads: unknown[]
): Promise<void> {
  for (const payload of payloads) {
    await prisma.$transaction((tx) =>
      recordEvents(tx, [{ type: 'step', source: '/test', destinations: ['ledger'], orderingKey, payload }]),
    );
  }
}

/** What the queue has, by ordering key, in order of arrival. */
function arrivals(sqs: ScriptedSqs, queue = QUEUE): Record<string, unknown[]> {
  const envelopes = sqs
    .stored(queue)
    .map(({ body }) => JSON.parse(body) as { partitionkey: string; data: unknown });
  const byKey = Object.groupBy(envelopes, ({ partitionkey }) => partitionkey);
  return Object.fromEntries(
    Object.entries(byKey).map(([key, list = []]) => [key, list.map(({ data }) => data)]),
  );
}

async function relayTo(
  settings: Partial<RelayConfig> = {},
  destination: Partial<Destination> = {},
): Promise<{ db: TestDatabase; prisma: PrismaClient; sqs: ScriptedSqs; relay: RelayParts }> {
  const db = await createDatabase();
  const prisma = createPrisma(db.url);
  const sqs = await startScriptedSqs({ queues: { [QUEUE]: {} } });
  const relay = relayParts(prisma, sqs, { destinations: fifo(sqs, destination), ...settings });
  return { db, prisma, sqs, relay };
}

const LEASE_SECONDS = 1.5;

/** The events of each key whose transaction committed, in the order of the commits. */
type Committed = Map<string, number[]>;

/**
 * Records 250 events, each in a transaction of its own, one in six rolled back: one for each of `keys` in turn, so
 * that producers meet at the same key, and then for any.
 */
async function produce(db: TestDatabase, keys: string[], committed: Committed, chance: () => number) {
  const client = createPrisma(db.url, { max: 3 });
  for (let n = 0; n < 250; n += 1) {
    const orderingKey = keys[n] ?? keys[Math.floor(chance() * keys.length)] ?? '';
    const payload = Math.floor(chance() * 1e9);
    const fails = chance() < 1 / 6;
    await client
      .$transaction(async (tx) => {
        await recordEvents(tx, [
          { type: 'step', source: '/test', destinations: ['ledger'], orderingKey, payload },
        ]);
        if (chance() < 0.1) await sleep(chance() * 20);
        if (fails) throw new RollBack();
        // Inside the transaction the key's lock is held, so this is the order of commit.
        committed.set(orderingKey, [...(committed.get(orderingKey) ?? []), payload]);
      })
      .catch((error: unknown) => {
        if (!(error instanceof RollBack)) throw error;
      });
  }
}

/**
 * A relay that lives until a random moment: from then on its database is gone, and what it holds runs out with its
 * lease. It may also die before a settle, or freeze for longer than its lease after a claim or before a settle.
 */
function mortalRelay(client: PrismaClient, sqs: ScriptedSqs, chance: () => number) {
  const parts = relayParts(client, sqs, {
    destinations: fifo(sqs),
    leaseSeconds: LEASE_SECONDS,
    maxAttempts: 1_000,
    backoffBaseSeconds: 0.02,
    backoffMaxSeconds: 0.1,
    claimLimit: 60,
  });
  const life = countdown(50 + chance() * 3_000);
  const mayFreeze = () => (chance() < 0.005 ? sleep(LEASE_SECONDS * 1_100) : undefined);
  const dies = (text: string) => {
    if (life() < 0 || (text.includes('claim_token = NULL') && chance() < 0.05)) throw new Error('crashed');
  };
  const store: Store = {
    query: async <Row>(text: string, values: readonly unknown[]) => {
      dies(text);
      const rows = await parts.store.query<Row>(text, values);
      if (rows.length > 0) await mayFreeze();
      return rows;
    },
    execute: async (text, values) => {
      dies(text);
      await mayFreeze();
      return parts.store.execute(text, values);
    },
  };
  return { relay: { ...parts, random: chance, store } satisfies RelayParts, life };
}

/** Each answer of the queue is whatever the dice say. */
const answerByDice = (sqs: ScriptedSqs, chance: () => number) =>
  sqs.on(({ entries }) => {
    const dice = chance();
    if (dice < 0.05) return storeThenReset();
    if (dice < 0.06) return storeThenStall();
    if (dice < 0.3) {
      const failing = entries.filter(() => chance() < 0.4);
      return fail(Object.fromEntries(failing.map(({ Id }) => [Id, { code: 'InternalError' }])));
    }
    return ok();
  });

/** What was sent to the queue, by key, in order of sending: repeated while unanswered, but never after a later event. */
function sendings(sqs: ScriptedSqs): Map<string, unknown[]> {
  const byKey = new Map<string, unknown[]>();
  for (const { MessageBody } of sqs.sends().flatMap(({ entries }) => entries)) {
    const { partitionkey, data } = JSON.parse(MessageBody) as { partitionkey: string; data: unknown };
    const sent = byKey.get(partitionkey) ?? [];
    if (sent.at(-1) !== data) byKey.set(partitionkey, [...sent, data]);
  }
  return byKey;
}

test('a crowd of crashing relays never delivers a key out of commit order, and loses nothing', async () => {
  const keys = Array.from({ length: 210 }, (_, index) => `key ${index}`);
  const { db, sqs } = await relayTo();
  const chance = seeded(7);
  const committed: Committed = new Map();
  answerByDice(sqs, chance);

  const producers = { atWork: true };
  const relayOn = async () => {
    const client = createPrisma(db.url, { max: 4 });
    while (producers.atWork || ((await stateCounts(db))['PENDING'] ?? 0) > 0) {
      const { relay, life } = mortalRelay(client, sqs, chance);
      while (life() > 0) {
        await tick(relay, countdown(3_000)).catch(() => undefined);
        await sleep(10);
      }
    }
  };
  const relays = Promise.all([relayOn(), relayOn(), relayOn(), relayOn()]);
  await Promise.all(Array.from({ length: 3 }, () => produce(db, keys, committed, chance)));
  producers.atWork = false;
  await relays;

  expect(committed.size).toBeGreaterThanOrEqual(200);
  const arrived = arrivals(sqs);
  const sent = sendings(sqs);
  const wrong = [...committed].flatMap(([key, values]) =>
    String(arrived[key]) === String(values) && String(sent.get(key)) === String(values)
      ? []
      : [{ key, committed: values, arrived: arrived[key], sent: sent.get(key) }],
  );
  expect(wrong).toEqual([]);
  expect(Object.keys(arrived)).toHaveLength(committed.size);
  expect(await stateCounts(db)).toEqual({ PUBLISHED: [...committed.values()].flat().length });
}, 90_000);

test('a parked head holds its key until a person replays it, and no other key', async () => {
  const { db, prisma, sqs, relay } = await relayTo();
  sqs.on(({ entries }) => {
    const poison = entries.filter(({ MessageBody }) => MessageBody?.includes('"poison"'));
    return fail(
      Object.fromEntries(poison.map(({ Id }) => [Id, { code: 'InvalidMessageContents', senderFault: true }])),
    );
  });
  await recordInOrder(prisma, 'held', 1, 'poison', 3);
  await recordInOrder(prisma, 'free', 1, 2, 3);

  await tick(relay, countdown(10_000));
  await tick(relay, countdown(10_000));
  expect(arrivals(sqs)).toEqual({ held: [1], free: [1, 2, 3] });
  expect(await outboxRows(db)).toMatchObject([
    { state: 'PUBLISHED' },
    { state: 'PARKED', parkReason: 'InvalidMessageContents: InvalidMessageContents by script' },
    { state: 'PENDING', attempts: 0 },
    { state: 'PUBLISHED' },
    { state: 'PUBLISHED' },
    { state: 'PUBLISHED' },
  ]);

  sqs.on();
  expect(await replayParked(storeOf(prisma), { destination: 'ledger', reason: 'InvalidMessage' })).toBe(1);
  await tick(relay, countdown(10_000));
  expect(arrivals(sqs)).toEqual({ held: [1, 'poison', 3], free: [1, 2, 3] });
});

test('discarding a parked head lets its key move on', async () => {
  const { prisma, sqs, relay } = await relayTo();
  sqs.next(fail({ 0: { code: 'InvalidMessageContents', senderFault: true } }));
  await recordInOrder(prisma, 'held', 'poison', 2, 3);
  await tick(relay, countdown(10_000));
  expect(arrivals(sqs)).toEqual({});
  expect(await discardParked(storeOf(prisma), { type: 'step' })).toBe(1);
  await tick(relay, countdown(10_000));
  expect(arrivals(sqs)).toEqual({ held: [2, 3] });
});

test('with parkedHead "skip" a key goes on without its parked event', async () => {
  const { db, prisma, sqs, relay } = await relayTo({}, { parkedHead: 'skip' });
  sqs.next(fail({ 0: { code: 'InvalidMessageContents', senderFault: true } }));
  await recordInOrder(prisma, 'skipping', 'poison', 2, 3);
  await tick(relay, countdown(10_000));
  expect(arrivals(sqs)).toEqual({ skipping: [2, 3] });
  expect(await stateCounts(db)).toEqual({ PARKED: 1, PUBLISHED: 2 });
});

test('an event that is delayed or backing off holds up its own key only', async () => {
  const { db, prisma, sqs, relay } = await relayTo();
  sqs.next(fail({ 0: { code: 'InternalError' } }));
  await recordInOrder(prisma, 'a', 1, 2);
  await prisma.$transaction((tx) =>
    recordEvents(tx, [
      {
        type: 'step',
        source: '/test',
        destinations: ['ledger'],
        orderingKey: 'b',
        payload: 1,
        delaySeconds: 60,
      },
      { type: 'step', source: '/test', destinations: ['ledger'], orderingKey: 'b', payload: 2 },
      { type: 'step', source: '/test', destinations: ['ledger'], orderingKey: 'c', payload: 1 },
    ]),
  );
  await tick(relay, countdown(10_000));
  expect(arrivals(sqs)).toEqual({ c: [1] });
  await endBackoffs(db);
  await tick(relay, countdown(10_000));
  expect(arrivals(sqs)).toEqual({ a: [1, 2], b: [1, 2], c: [1] });
});

test('a long key is drained within one tick, not one event per tick', async () => {
  const { prisma, sqs, relay } = await relayTo();
  const values = Array.from({ length: 40 }, (_, index) => index);
  await recordInOrder(prisma, 'long', ...values);
  await tick(relay, countdown(20_000));
  expect(arrivals(sqs)).toEqual({ long: values });
  expect(sqs.sends()).toHaveLength(40);
});

test('keys that SQS would refuse as a group are hashed, and travel as they are in the envelope', async () => {
  const { prisma, sqs, relay } = await relayTo();
  const keys = ['tenant 7', 'é', '😀\uFFFF\u0007', 'x'.repeat(300), 'plain-key_1!'];
  for (const key of keys) await recordInOrder(prisma, key, 1, 2);
  await tick(relay, countdown(10_000));
  expect(arrivals(sqs)).toEqual(Object.fromEntries(keys.map((key) => [key, [1, 2]])));
  const groups = new Set(sqs.stored(QUEUE).map(({ groupId }) => groupId));
  expect(groups.size).toBe(keys.length);
  expect(groups).toContain('plain-key_1!');
});

test('equal payloads a second apart are two events, never one by content hash (B8)', async () => {
  const { prisma, sqs, relay } = await relayTo();
  await recordInOrder(prisma, 'same', { n: 1 }, { n: 1 });
  await tick(relay, countdown(10_000));
  expect(arrivals(sqs)).toEqual({ same: [{ n: 1 }, { n: 1 }] });
});

test('a replay within five minutes of an attempt that was stored is not swallowed (B8)', async () => {
  const { db, prisma, sqs, relay } = await relayTo({ maxAttempts: 1 });
  await recordInOrder(prisma, 'again', 1);
  await tick(relay, countdown(10_000));
  await db.sql(
    "UPDATE outbox_event SET state = 'PARKED', published_at = NULL, message_id = NULL, parked_at = now(), park_reason = 'test'",
  );
  await replayParked(storeOf(prisma), { type: 'step' });
  await tick(relay, countdown(10_000));
  expect(arrivals(sqs)).toEqual({ again: [1, 1] });
});

/** Records in a transaction that stays open until `commit` (or `rollBack`); `recorded` when its events are written. */
function openTransaction(prisma: PrismaClient, ...events: { orderingKey: string; payload: unknown }[]) {
  const [written, ended] = [gate(), gate()];
  const transaction = prisma.$transaction(
    async (tx) => {
      await recordEvents(
        tx,
        events.map((event) => ({ type: 'step', source: '/test', destinations: ['ledger'], ...event })),
      );
      written.resolve();
      await ended.promise;
    },
    { timeout: 20_000, maxWait: 20_000 },
  );
  // Looked at when it is committed; until then it must not count as unhandled.
  transaction.catch(() => undefined);
  return {
    recorded: soon(Promise.race([written.promise, transaction]), { message: 'the recording' }),
    commit: () => (ended.resolve(), soon(transaction, { message: 'the commit' })),
    rollBack: async () => {
      ended.reject(new RollBack());
      await expect(transaction).rejects.toThrow(RollBack);
    },
  };
}

/** Transactions that wait for a key's lock. */
const waiting = async (db: TestDatabase): Promise<number> => {
  const [row] = await db.sql<{ n: number }>(
    `SELECT count(*) AS n FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
     AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
  );
  return row?.n ?? 0;
};
const untilWaiting = (db: TestDatabase, count: number) =>
  until(async () => (await waiting(db)) === count, { message: `${count} transactions wait for a key` });

/** Payloads in order of sequence. */
const inSequence = async (db: TestDatabase): Promise<unknown[]> =>
  (await db.sql('SELECT payload FROM outbox_event ORDER BY sequence')).map(({ payload }) => payload);

describe('within a key, the order of sequence is the order of commit', () => {
  test('a second transaction waits for the first, and draws its number only then', async () => {
    const { db, prisma, sqs, relay } = await relayTo();
    const first = openTransaction(prisma, { orderingKey: 'k', payload: 1 });
    await first.recorded;
    const second = openTransaction(prisma, { orderingKey: 'k', payload: 2 });
    await untilWaiting(db, 1);
    // Another key waits for nobody; and no relay may send the second before the first is there.
    await recordInOrder(prisma, 'other', 'between');
    await tick(relay, countdown(10_000));
    await first.commit();
    await second.recorded;
    await tick(relay, countdown(10_000));
    await second.commit();
    await tick(relay, countdown(10_000));
    expect(await inSequence(db)).toEqual([1, 'between', 2]);
    expect(arrivals(sqs)).toEqual({ other: ['between'], k: [1, 2] });
  });

  test('a first transaction that is rolled back leaves no gap to wait for', async () => {
    const { db, prisma, sqs, relay } = await relayTo();
    const first = openTransaction(prisma, { orderingKey: 'k', payload: 1 });
    await first.recorded;
    const second = openTransaction(prisma, { orderingKey: 'k', payload: 2 });
    await untilWaiting(db, 1);
    await first.rollBack();
    await second.recorded;
    await second.commit();
    await tick(relay, countdown(10_000));
    expect(arrivals(sqs)).toEqual({ k: [2] });
  });

  test('one transaction that records a key several times keeps its own order', async () => {
    const { prisma, sqs, relay } = await relayTo();
    await prisma.$transaction(async (tx) => {
      const step = { type: 'step', source: '/test', destinations: ['ledger'] };
      await recordEvents(tx, [
        { ...step, orderingKey: 'a', payload: 1 },
        { ...step, orderingKey: 'b', payload: 1 },
        { ...step, orderingKey: 'a', payload: 2 },
      ]);
      await recordEvents(tx, [
        { ...step, orderingKey: 'b', payload: 2 },
        { ...step, orderingKey: 'a', payload: 3 },
      ]);
    });
    await tick(relay, countdown(10_000));
    expect(arrivals(sqs)).toEqual({ a: [1, 2, 3], b: [1, 2] });
  });

  // Whoever took its keys in the order given would hold one that the other, ahead of it in the queue, wants next.
  test.each(['one', 'two'])(
    'two that take the same keys in opposite order do not deadlock (%s is held)',
    async (held) => {
      const { db, prisma } = await relayTo();
      const blocker = openTransaction(prisma, { orderingKey: held, payload: 'blocker' });
      await blocker.recorded;
      const there = ['one', 'two'].map((orderingKey) => ({ orderingKey, payload: `there ${orderingKey}` }));
      const back = ['two', 'one'].map((orderingKey) => ({ orderingKey, payload: `back ${orderingKey}` }));
      const first = openTransaction(prisma, ...there);
      await untilWaiting(db, 1);
      const second = openTransaction(prisma, ...back);
      await untilWaiting(db, 2);
      await blocker.commit();
      await Promise.all([first, second].map(async ({ recorded, commit }) => recorded.then(commit)));
      expect(await inSequence(db)).toHaveLength(5);
    },
  );
});

test('one key at two destinations: each in its order, and a parked head holds it at one of them only', async () => {
  const db = await createDatabase();
  const prisma = createPrisma(db.url);
  const sqs = await startScriptedSqs({ queues: { [QUEUE]: {}, 'audit.fifo': {} } });
  const { [`audit.fifo`]: audit } = destinationsOf(sqs, 'audit.fifo');
  if (!audit) throw new Error('no destination');
  const relay = relayParts(prisma, sqs, { destinations: { ...fifo(sqs), audit } });
  for (const payload of [1, 'poison', 3, 4]) {
    for (const orderingKey of ['k', 'l']) {
      const destinations = ['ledger', 'audit'];
      await prisma.$transaction((tx) =>
        recordEvents(tx, [{ type: 'step', source: '/test', destinations, orderingKey, payload }]),
      );
    }
  }
  sqs.on(({ queue, entries }) => {
    const poison = entries.filter(
      ({ MessageBody }) => queue === QUEUE && MessageBody.includes('"poison"') && MessageBody.includes('"k"'),
    );
    return fail(Object.fromEntries(poison.map(({ Id }) => [Id, { code: 'Poison', senderFault: true }])));
  });
  await tick(relay, countdown(10_000));
  const all = [1, 'poison', 3, 4];
  expect(arrivals(sqs)).toEqual({ k: [1], l: all });
  expect(arrivals(sqs, 'audit.fifo')).toEqual({ k: all, l: all });
});

const lease = () => ({ token: randomUUID(), leaseSeconds: 30 });
const BYTES = 8_388_608;
const rangeAfter = (after: string | null, limit = 100): KeyRange => ({
  destination: 'ledger',
  after,
  limit,
  hold: true,
});

describe('100,000 events that wait in one key, among 10,000 other keys', () => {
  const BIG = 'key 05000, and more';
  let db: TestDatabase;
  let prisma: PrismaClient;

  beforeAll(async () => {
    db = await createDatabase();
    prisma = createPrisma(db.url, { max: 2 });
    // Statistics come when the test asks for them.
    await db.sql('ALTER TABLE outbox_event SET (autovacuum_enabled = off)');
    await db.sql(
      `INSERT INTO outbox_event (event_id, destination, source, type, ordering_key, payload)
       SELECT gen_random_uuid(), 'ledger', '/test', 'step', coalesce('key ' || lpad(n::text, 5, '0'), $1), '1'
       FROM (SELECT NULL::int AS n FROM generate_series(1, 100000) UNION ALL SELECT generate_series(1, 10000)) AS keys`,
      [BIG],
    );
  });

  /** The plan of the statement that `claiming` runs, which is undone again. */
  async function planOf(claiming: (store: Store) => Promise<unknown>): Promise<Plan> {
    const statements: [text: string, values: readonly unknown[]][] = [];
    await claiming({
      query: (...statement) => (statements.push(statement), Promise.resolve([])),
      execute: () => Promise.reject(new Error('a claim is a query')),
    });
    const [statement, ...others] = statements;
    if (!statement || others.length > 0) throw new Error('a claim is one statement');
    const [text, values] = statement;
    const session = await openSession(db.url);
    await session.query('BEGIN');
    const { rows } = await session.query<{ 'QUERY PLAN': [{ Plan: Plan }] }>(
      `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`,
      [...values],
    );
    await session.query('ROLLBACK');
    const plan = rows[0]?.['QUERY PLAN'][0].Plan;
    if (!plan) throw new Error('no plan');
    return plan;
  }

  describe.each(['without statistics', 'with statistics'])('%s', (statistics) => {
    beforeAll(async () => {
      if (statistics === 'with statistics') await db.sql('ANALYZE outbox_event');
    });

    test('cost a claim of a hundred heads no more than other keys do', async () => {
      const among = await planOf((store) => claimHeads(store, lease(), [rangeAfter('key 04950')], BYTES));
      const apart = await planOf((store) => claimHeads(store, lease(), [rangeAfter('key 08000')], BYTES));
      for (const plan of [among, apart]) {
        expect(nodesOf(plan).filter((node) => node['Node Type'] === 'Seq Scan')).toEqual([]);
        expect(claimedRows(plan)).toBe(100);
        // Four pages to find a head, and about as many to lock and to write it.
        expect(buffersOf(plan)).toBeLessThan(1_500);
      }
      expect(Math.abs(buffersOf(among) - buffersOf(apart))).toBeLessThan(200);
    });

    test('cost nothing where there is nothing to claim', async () => {
      const beyond = await planOf((store) => claimHeads(store, lease(), [rangeAfter('key 99999')], BYTES));
      const elsewhere = await planOf((store) =>
        claimHeads(store, lease(), [{ ...rangeAfter(null), destination: 'nobody' }], BYTES),
      );
      const unordered = await planOf((store) => claimSome(store, { limit: 100 }));
      for (const plan of [beyond, elsewhere, unordered]) {
        expect(nodesOf(plan).filter((node) => node['Node Type'] === 'Seq Scan')).toEqual([]);
        expect(buffersOf(plan)).toBeLessThan(20);
      }
    });
  });

  test('nor does one parked head: every other key is claimed, each once, in as many statements as without it', async () => {
    await db.sql(
      `UPDATE outbox_event SET state = 'PARKED', parked_at = now(), park_reason = 'Poison' WHERE ordering_key = 'key 03000'`,
    );
    await db.sql(
      `INSERT INTO outbox_event (event_id, destination, source, type, ordering_key, payload)
       SELECT gen_random_uuid(), 'ledger', '/test', 'step', 'key 03000', '2' FROM generate_series(1, 1000)`,
    );
    const past = await planOf((store) => claimHeads(store, lease(), [rangeAfter('key 02950')], BYTES));
    expect(claimedRows(past)).toBe(99);
    expect(buffersOf(past)).toBeLessThan(1_500);

    const claimed: string[] = [];
    let statements = 0;
    for (let after: string | null = null, more = true; more; statements += 1) {
      const { events, reached } = await claimHeads(
        storeOf(prisma),
        lease(),
        [rangeAfter(after, 1_000)],
        BYTES,
      );
      claimed.push(...events.map(({ orderingKey }) => String(orderingKey)));
      after = reached.get('ledger') ?? null;
      more = after !== null;
    }
    expect(statements).toBe(11);
    expect(claimed).toHaveLength(10_000);
    expect(new Set(claimed).size).toBe(10_000);
    expect(claimed).toContain(BIG);
    expect(claimed).not.toContain('key 03000');
  });
});

/** A node of PostgreSQL's EXPLAIN, as far as it is looked at. */
interface Plan {
  'Node Type': string;
  'Relation Name'?: string;
  'Actual Rows': number;
  'Shared Hit Blocks': number;
  'Shared Read Blocks': number;
  Plans?: Plan[];
}

/** A plan's nodes, itself the first. */
const nodesOf = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(nodesOf)];
/** Pages that the whole statement looked at. */
const buffersOf = (plan: Plan): number => plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
const claimedRows = (plan: Plan): number | undefined =>
  nodesOf(plan).find((node) => node['Node Type'] === 'ModifyTable')?.['Actual Rows'];

class RollBack extends Error {}

/** mulberry32: the same numbers in [0, 1) for the same seed. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
