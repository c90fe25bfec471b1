import { describe, expect, inject, test } from 'vitest';
import { afterwards, beginTest, endTest } from './support/cleanup.ts';
import { createDatabase, createPrisma, openSession } from './support/database.ts';
import {
  dueIn,
  insertEvents,
  leased,
  leaseExpired,
  parked,
  pending,
  published,
} from './support/factories.ts';
import * as knobs from './support/knobs.ts';
import { runAsAdmin, startTestServer } from './support/server.ts';
import { DeadlineError, soon, until } from './support/wait.ts';

test('the suite runs on the Node that Lambda runs', () => {
  expect(process.versions.node).toMatch(/^24\./);
});

describe('until', () => {
  test('waits for a condition and returns what it answered', async () => {
    let asked = 0;
    expect(await until(() => ++asked === 3 && 'three')).toBe('three');
  });

  test('says what it waited for, and what the condition last threw', async () => {
    const never = until(() => Promise.reject(new Error('no such row')), { within: 30, message: 'the row' });
    await expect(never).rejects.toThrow('the row: not within 30 ms (no such row)');
  });

  test('gives up on a condition that never answers', async () => {
    await expect(until(() => new Promise(() => {}), { within: 30 })).rejects.toThrow(DeadlineError);
    await expect(soon(new Promise(() => {}), { within: 30 })).rejects.toThrow(DeadlineError);
  });
});

test('clean-up undoes the last first, goes on after a failure, and then reports it', async () => {
  const undone: string[] = [];
  beginTest();
  afterwards(() => undone.push('first'));
  afterwards(() => Promise.reject(new Error('stuck')));
  afterwards(() => undone.push('last'));
  await expect(endTest()).rejects.toThrow('stuck');
  expect(undone).toEqual(['last', 'first']);
});

describe('databases', () => {
  test('each test has a migrated one of its own', async () => {
    const [one, other] = await Promise.all([createDatabase(), createDatabase()]);
    await insertEvents(one, 2);
    expect(await one.sql('SELECT count(*) AS n FROM outbox_event')).toEqual([{ n: 2 }]);
    expect(await other.sql('SELECT count(*) AS n FROM outbox_event')).toEqual([{ n: 0 }]);
    expect(await createPrisma(one.url, { max: 1 }).outboxEvent.count()).toBe(2);
  });

  test('or an empty one', async () => {
    const db = await createDatabase({ migrated: false });
    expect(await db.sql("SELECT 1 FROM pg_tables WHERE schemaname = 'public'")).toEqual([]);
  });

  test('dropping ends the sessions of others, twice is once', async () => {
    const db = await createDatabase();
    const session = await openSession(db.url);
    await db.drop();
    await db.drop();
    await expect(session.query('SELECT 1')).rejects.toThrow();
    await expect(openSession(db.url)).rejects.toThrow('does not exist');
  });
});

describe('with DATABASE_URL', () => {
  test('that server is used, and only what the run made is dropped', async () => {
    const own = await createDatabase({ migrated: false });
    const { server, stop } = await startTestServer(own.url);
    expect(server.adminUrl).toBe(own.url);
    const made = 'SELECT count(*)::int AS n FROM pg_database WHERE starts_with(datname, $1)';
    expect(await runAsAdmin(own.url, [made, server.prefix])).toEqual([{ n: 1 }]);
    await stop();
    expect(await runAsAdmin(own.url, [made, server.prefix])).toEqual([{ n: 0 }]);
    expect(await own.sql('SELECT 1 AS alive')).toEqual([{ alive: 1 }]);
  });

  test('what a killed run left is dropped by the next, what a living run has is not', async () => {
    const own = await createDatabase({ migrated: false });
    const killed = 'outbox_test_0000dead_template';
    await runAsAdmin(own.url, [`CREATE DATABASE ${killed}`]);
    const { stop } = await startTestServer(own.url);
    const names = (await runAsAdmin(own.url, ['SELECT datname FROM pg_database'])).map(
      (row) => row['datname'],
    );
    expect(names).not.toContain(killed);
    expect(names).toContain(inject('server').template);
    await stop();
  });

  test.skipIf(!inject('server').superuser)(
    'a role that may not create databases is refused in words',
    async () => {
      const url = await knobs.createRole(await createDatabase());
      await expect(startTestServer(url)).rejects.toThrow(
        /may not create databases.*ALTER ROLE ".*" CREATEDB/s,
      );
    },
  );
});

describe('rows in named situations', () => {
  const due = "state = 'PENDING' AND due_at <= now() AND (lease_until IS NULL OR lease_until <= now())";

  test('which of them are due', async () => {
    const db = await createDatabase();
    const situations = {
      pending: pending(),
      leaseExpired: leaseExpired(),
      leased: leased({ secondsLeft: 30 }),
      later: dueIn(60),
      published: published({ hoursAgo: 25 }),
      parked: parked({ reason: 'TooLong' }),
    };
    for (const [type, situation] of Object.entries(situations))
      await insertEvents(db, 1, { ...situation, type });
    const rows = await db.sql<{ type: string }>(
      `SELECT type FROM outbox_event WHERE ${due} ORDER BY sequence`,
    );
    expect(rows.map((row) => row.type)).toEqual(['pending', 'leaseExpired']);
    const [old] = await db.sql(
      "SELECT published_at < now() - interval '24 hours' AS old FROM outbox_event WHERE state = 'PUBLISHED'",
    );
    expect(old).toEqual({ old: true });
  });

  test('many by one statement, in order, with the exact payload text', async () => {
    const db = await createDatabase();
    const events = await insertEvents(db, 500, (index) => ({ payloadText: `{"b":1.0, "n":${index}}` }));
    const rows = await db.sql('SELECT sequence, event_id, payload::text FROM outbox_event ORDER BY sequence');
    expect(rows).toEqual(
      events.map((event, n) => ({
        sequence: Number(event.sequence),
        event_id: event.eventId,
        payload: `{"b":1.0, "n":${n}}`,
      })),
    );
  });

  test('a claim gives all its rows one token', async () => {
    const db = await createDatabase();
    const events = await insertEvents(db, 3, leased());
    expect(new Set(events.map((event) => event.claimToken)).size).toBe(1);
  });
});

describe('knobs', () => {
  test('settings hold for new sessions', async () => {
    const db = await createDatabase();
    await knobs.setTimeZone(db, 'America/New_York');
    await knobs.forbidPlans(db, 'hashjoin', 'mergejoin');
    if (inject('server').superuser) await knobs.setMessages(db, 'C');
    await knobs.setReadOnly(db, true);
    const session = await openSession(db.url);
    const show = async (name: string): Promise<unknown> => (await session.query(`SHOW ${name}`)).rows[0];
    expect(await show('TimeZone')).toEqual({ TimeZone: 'America/New_York' });
    expect(await show('enable_hashjoin')).toEqual({ enable_hashjoin: 'off' });
    await expect(session.query("INSERT INTO orders VALUES ('1', 'sku', 1)")).rejects.toMatchObject({
      code: '25006',
    });
    expect(await insertEvents(db, 1)).toHaveLength(1);
  });

  test('a trigger raises a chosen SQLSTATE once, and counts through the rollback', async () => {
    const db = await createDatabase();
    const raised = await knobs.raiseOn(db, { table: 'orders', sqlState: '40001', when: 'NEW.quantity > 1' });
    const insert = (quantity: number): Promise<unknown> =>
      db.sql("INSERT INTO orders VALUES (gen_random_uuid(), 'sku', $1)", [quantity]);
    await insert(1);
    expect(await raised()).toBe(0);
    await expect(insert(2)).rejects.toMatchObject({ code: '40001' });
    await insert(2);
    expect(await raised()).toBe(1);
  });

  test('or at COMMIT', async () => {
    const db = await createDatabase();
    await knobs.raiseOn(db, { table: 'orders', sqlState: '53100', at: 'commit' });
    const session = await openSession(db.url);
    await session.query('BEGIN');
    await session.query("INSERT INTO orders VALUES ('1', 'sku', 1)");
    await expect(session.query('COMMIT')).rejects.toMatchObject({ code: '53100' });
    expect(await db.sql('SELECT * FROM orders')).toEqual([]);
  });

  test('a change can be made slow', async () => {
    const db = await createDatabase();
    await knobs.delayOn(db, { table: 'orders', on: 'UPDATE', seconds: 0.1 });
    await db.sql("INSERT INTO orders VALUES ('1', 'sku', 1)");
    const start = performance.now();
    await db.sql('UPDATE orders SET quantity = 2');
    expect(performance.now() - start).toBeGreaterThan(99);
  });

  test('sessions can be seen and ended', async () => {
    const db = await createDatabase();
    const session = await openSession(db.url);
    await session.query('BEGIN');
    expect(await knobs.sessions(db)).toMatchObject([{ state: 'idle in transaction', query: 'BEGIN' }]);
    expect(await knobs.terminateSessions(db, ({ state }) => state === 'active')).toBe(0);
    expect(await knobs.terminateSessions(db)).toBe(1);
    await expect(session.query('COMMIT')).rejects.toThrow();
    await until(async () => (await knobs.sessions(db)).length === 0);
  });

  test.skipIf(!inject('server').superuser)(
    'a role with few connections gets 53300 for one more',
    async () => {
      const db = await createDatabase();
      const url = await knobs.createRole(db, { connectionLimit: 1 });
      const session = await openSession(url);
      await session.query(
        "INSERT INTO outbox_event (event_id, destination, source, type, payload) VALUES (gen_random_uuid(), 'a', 'b', 'c', '1')",
      );
      await expect(openSession(url)).rejects.toMatchObject({ code: '53300' });
    },
  );
});
