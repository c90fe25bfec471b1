import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { pruneLedger, pruneOutbox } from '../functions/prune/prune.ts';
import { storeOf, type Store } from '../functions/shared/store.ts';
import { createDatabase, createPrisma, openSession, type TestDatabase } from './support/database.ts';
import { insertEvent, insertEvents, leased, parked, pending, published } from './support/factories.ts';
import { delayOn, raiseOn } from './support/knobs.ts';
import { stateCounts } from './support/relay.ts';
import { soon, until } from './support/wait.ts';

const PAGE = 5_000;
const inFull = () => 60_000;

let db: TestDatabase;
let store: Store;

beforeAll(async () => {
  db = await createDatabase();
  store = storeOf(createPrisma(db.url, { max: 3 }));
});
beforeEach(() => db.sql('TRUNCATE outbox_event, applied_event'));

/** A store that fails the test when a statement reaches it. */
const noSql: Store = {
  query: () => Promise.reject(new Error('SQL was sent')),
  execute: () => Promise.reject(new Error('SQL was sent')),
};

/** Counts statements, and rows that each of them changed. */
function counting(inner: Store): Store & { rows: number[] } {
  const rows: number[] = [];
  const count = <T>(answer: T, n: number): T => (rows.push(n), answer);
  return {
    rows,
    query: async <Row>(text: string, values: readonly unknown[]) => {
      const answer = await inner.query<Row>(text, values);
      return count(answer, (answer[0] as { pruned: number }).pruned);
    },
    execute: async (text, values) => {
      const n = await inner.execute(text, values);
      return count(n, n);
    },
  };
}

/** Rows by one statement, of a kind that SQL over `n` (1 …) chooses, each recorded and published `n` ms after three days ago. */
const fill = (rows: number, state: string) =>
  db.sql(`INSERT INTO outbox_event (event_id, destination, source, type, payload, recorded_at, state, published_at, parked_at, park_reason)
    SELECT gen_random_uuid(), 'stock', '/orders', 'order.placed', '{}', at, state, CASE state WHEN 'PUBLISHED' THEN at END,
      CASE state WHEN 'PARKED' THEN at END, CASE state WHEN 'PARKED' THEN 'TooLarge' END
    FROM (SELECT n, now() - interval '3 days' + n * interval '1 ms' AS at, ${state} AS state FROM generate_series(1, ${rows}) n) r
    ORDER BY n`);

const apply = (rows: number, daysAgo: number, on: Pick<TestDatabase, 'sql'> = db) =>
  on.sql(`INSERT INTO applied_event (consumer, source, event_id, applied_at)
    SELECT 'stock', '/orders', gen_random_uuid(), now() - ${daysAgo} * interval '1 day' FROM generate_series(1, ${rows})`);
const ledger = async () => (await db.sql<{ n: number }>('SELECT count(*) AS n FROM applied_event'))[0]?.n;

const typesLeft = async () =>
  (await db.sql<{ type: string }>('SELECT type FROM outbox_event ORDER BY sequence')).map(({ type }) => type);

// Promise 1: nothing committed is dropped by prune.
describe('only what was published long enough ago goes', () => {
  test('pending and parked rows stay, however old', async () => {
    const long = { recordedInSeconds: -9_000_000, dueInSeconds: -9_000_000 };
    await insertEvent(db, pending({ ...long, type: 'pending' }));
    await insertEvent(db, leased({ ...long, type: 'leased', secondsLeft: -8_000_000 }));
    await insertEvent(db, parked({ ...long, type: 'parked', parkedInSeconds: -8_000_000 }));
    await insertEvent(db, published({ hoursAgo: 2_000, type: 'published' }));
    expect(await pruneOutbox(store, 24, inFull)).toBe(1);
    expect(await pruneOutbox(store, 0, inFull)).toBe(0);
    expect(await typesLeft()).toEqual(['pending', 'leased', 'parked']);
  });

  test('age counts from publishing, not from recording', async () => {
    const recorded = { recordedInSeconds: -30 * 86_400 };
    await insertEvent(db, { ...published({ hoursAgo: 25 }), ...recorded, type: 'published yesterday' });
    await insertEvent(db, { ...published({ hoursAgo: 23 }), ...recorded, type: 'published today' });
    expect(await pruneOutbox(store, 24, inFull)).toBe(1);
    expect(await typesLeft()).toEqual(['published today']);
    expect(await pruneOutbox(store, 22.9, inFull)).toBe(1);
  });

  test('an old row behind a younger one goes too', async () => {
    for (const hoursAgo of [1, 50, 2, 60])
      await insertEvent(db, published({ hoursAgo, type: `${hoursAgo} h` }));
    expect(await pruneOutbox(store, 24, inFull)).toBe(2);
    expect(await typesLeft()).toEqual(['1 h', '2 h']);
  });

  test('an empty outbox has nothing to prune', async () => {
    expect(await pruneOutbox(store, 24, inFull)).toBe(0);
  });
});

describe('in small statements', () => {
  test('12,000 published rows go, page by page, from between those that stay', async () => {
    await fill(
      13_000,
      "CASE WHEN n % 13 = 0 THEN CASE WHEN n % 2 = 0 THEN 'PARKED' ELSE 'PENDING' END ELSE 'PUBLISHED' END",
    );
    const counter = counting(store);
    expect(await pruneOutbox(counter, 24, inFull)).toBe(12_000);
    expect(await stateCounts(db)).toEqual({ PARKED: 500, PENDING: 500 });
    expect(Math.max(...counter.rows)).toBeLessThanOrEqual(PAGE);
  });

  test('a page full of parked rows does not hide the published ones behind it', async () => {
    await fill(2 * PAGE + 10, `CASE WHEN n > ${2 * PAGE} THEN 'PUBLISHED' ELSE 'PARKED' END`);
    expect(await pruneOutbox(store, 24, inFull)).toBe(10);
  });

  test('young rows are not walked through to their end', async () => {
    await insertEvent(db, published({ hoursAgo: 30 }));
    await db.sql(`INSERT INTO outbox_event (event_id, destination, source, type, payload, state, published_at)
      SELECT gen_random_uuid(), 'stock', '/orders', 'order.placed', '{}', 'PUBLISHED', now() FROM generate_series(1, 15000)`);
    const counter = counting(store);
    expect(await pruneOutbox(counter, 24, inFull)).toBe(1);
    expect(counter.rows).toEqual([1, 0]);
  });

  test('it stops when the time is over, and the next run goes on', async () => {
    await fill(11_000, "'PUBLISHED'");
    const counter = counting(store);
    const onePage = () => (counter.rows.length < 1 ? 60_000 : 900);
    expect(await pruneOutbox(counter, 24, onePage)).toBe(PAGE);
    expect(await pruneOutbox(noSql, 24, () => 900)).toBe(0);
    expect(await pruneOutbox(store, 24, inFull)).toBe(6_000);
  });

  test('two runs at once share the rows', async () => {
    await fill(11_000, "'PUBLISHED'");
    const pruned = await Promise.all([1, 2].map(() => pruneOutbox(store, 24, inFull)));
    expect(pruned.reduce((sum, n) => sum + n)).toBe(11_000);
    expect(await stateCounts(db)).toEqual({});
  });
});

// Case A3: with careless SQL a missing cutoff means every row.
test.each([undefined, null, Number.NaN, Infinity, -1, '24', new Date()])(
  'a retention of %s throws before any SQL',
  async (retention) => {
    await expect(pruneOutbox(noSql, retention as never, inFull)).rejects.toThrow(TypeError);
    await expect(pruneLedger(noSql, retention as never, inFull)).rejects.toThrow(TypeError);
  },
);

describe('business goes on meanwhile', () => {
  test('recording, claiming and applying do not wait for a prune in the middle of its statement', async () => {
    const own = await createDatabase();
    await insertEvents(own, 2, published({ hoursAgo: 48 }));
    const slow = await delayOn(own, { table: 'outbox_event', on: 'DELETE', seconds: 2 });
    let isDone = false;
    const pruning = pruneOutbox(storeOf(createPrisma(own.url, { max: 1 })), 24, inFull).finally(
      () => (isDone = true),
    );
    await until(async () => (await slow()) === 1);
    const { sequence } = await soon(insertEvent(own), { within: 1_500 });
    const claim = 'UPDATE outbox_event SET attempts = attempts + 1 WHERE sequence = $1';
    await soon(own.sql(claim, [sequence]), { within: 1_500 });
    expect(isDone).toBe(false);
    expect(await pruning).toBe(2);
  });

  // Case A8.
  test('prune does not wait for a transaction that is recording, and leaves its event alone', async () => {
    await insertEvent(db, published({ hoursAgo: 48 }));
    const session = await openSession(db.url);
    await session.query('BEGIN');
    await session.query(
      "INSERT INTO outbox_event (event_id, destination, source, type, payload, recorded_at) VALUES (gen_random_uuid(), 'stock', '/orders', 'late', '1', now() - interval '9 days')",
    );
    expect(await soon(pruneOutbox(store, 24, inFull))).toBe(1);
    await session.query('COMMIT');
    expect(await pruneOutbox(store, 0, inFull)).toBe(0);
    expect(await typesLeft()).toEqual(['late']);
  });

  test('a statement that fails leaves its page whole, and says so', async () => {
    const own = await createDatabase();
    await insertEvents(own, 3, published({ hoursAgo: 48 }));
    await raiseOn(own, { table: 'outbox_event', on: 'DELETE', sqlState: '53100' });
    const ownStore = storeOf(createPrisma(own.url, { max: 1 }));
    await expect(pruneOutbox(ownStore, 24, inFull)).rejects.toThrow();
    expect(await stateCounts(own)).toEqual({ PUBLISHED: 3 });
    expect(await pruneOutbox(ownStore, 24, inFull)).toBe(3);
  });
});

// Case C10.
describe('the ledger', () => {
  test('forgets what was applied before its retention, and nothing later', async () => {
    await apply(3, 35.01);
    await apply(4, 34.99);
    expect(await pruneLedger(store, 35, inFull)).toBe(3);
    expect(await ledger()).toBe(4);
    expect(await pruneLedger(store, 35, inFull)).toBe(0);
  });

  test('the same event applied by two consumers has two ages', async () => {
    await db.sql(`INSERT INTO applied_event (consumer, source, event_id, applied_at)
      SELECT consumer, '/orders', 'f47ac10b-58cc-4372-a567-0e02b2c3d479', now() - days * interval '1 day'
      FROM (VALUES ('stock', 40), ('mail', 1)) v(consumer, days)`);
    expect(await pruneLedger(store, 35, inFull)).toBe(1);
    expect(await db.sql('SELECT consumer FROM applied_event')).toEqual([{ consumer: 'mail' }]);
  });

  test('12,000 rows go in statements of at most 5,000, as far as the time allows', async () => {
    await apply(12_000, 40);
    const counter = counting(store);
    const onePage = () => (counter.rows.length < 1 ? 60_000 : 900);
    expect(await pruneLedger(counter, 35, onePage)).toBe(PAGE);
    expect(await pruneLedger(counter, 35, inFull)).toBe(7_000);
    expect(counter.rows).toEqual([PAGE, PAGE, 2_000]);
  });

  test('a consumer does not wait for it', async () => {
    const own = await createDatabase();
    await apply(2, 40, own);
    const slow = await delayOn(own, { table: 'applied_event', on: 'DELETE', seconds: 2 });
    let isDone = false;
    const pruning = pruneLedger(storeOf(createPrisma(own.url, { max: 1 })), 35, inFull).finally(
      () => (isDone = true),
    );
    await until(async () => (await slow()) === 1);
    await soon(apply(1, 0, own), { within: 1_500 });
    expect(isDone).toBe(false);
    expect(await pruning).toBe(2);
  });
});
