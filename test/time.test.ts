// D6: the database lives in New York, the process in Kolkata; nothing is due, expired or old nine and a half hours off.

import { beforeAll, beforeEach, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from './support/database.ts';
import { insertEvents, published } from './support/factories.ts';
import { setTimeZone } from './support/knobs.ts';
import { startProcess, type TestProcess } from './support/process.ts';
import type { Ask, Claimed } from './support/programs/time.ts';

let db: TestDatabase;
let kolkata: TestProcess;
let asked = 0;

beforeAll(async () => {
  db = await createDatabase();
  await setTimeZone(db, 'America/New_York');
  kolkata = startProcess(new URL('./support/programs/time.ts', import.meta.url), {
    env: { TZ: 'Asia/Kolkata', DATABASE_URL: db.url },
  });
});

beforeEach(() => db.sql('TRUNCATE outbox_event'));

async function ask<T>(what: Ask): Promise<T> {
  const number = ++asked;
  kolkata.send({ ...what, number });
  const reply = await kolkata.message((message) => (message as { number: number }).number === number);
  expect(reply).not.toHaveProperty('error');
  return (reply as { answer: T }).answer;
}

const claim = async (dueFrom?: number) =>
  (await ask<Claimed[]>({ do: 'claim', ...(dueFrom !== undefined && { dueFrom }) })).map(({ type }) => type);

/** Lets so many seconds pass for leases, without waiting. */
const age = (seconds: number) =>
  db.sql('UPDATE outbox_event SET lease_until = lease_until - make_interval(secs => $1)', [seconds]);

test('the process and its database sessions really are in those zones', async () => {
  expect(await ask({ do: 'zones' })).toEqual({ process: 5, database: 'America/New_York' });
});

test('an event due in 60 s is not claimed at once, however its time was given, and is claimed after them', async () => {
  await ask({ do: 'record', type: 'at once' });
  await ask({ do: 'record', type: 'since a minute ago', dueAt: new Date(Date.now() - 60_000) });
  await ask({ do: 'record', type: 'by dueAt', dueAt: new Date(Date.now() + 60_000) });
  await ask({ do: 'record', type: 'by delaySeconds', delaySeconds: 60 });
  const due = await db.sql<{ type: string; seconds: number }>(
    'SELECT type, extract(epoch FROM due_at - now())::float8 AS seconds FROM outbox_event ORDER BY sequence',
  );
  expect(due.map(({ seconds }) => Math.round(seconds / 60))).toEqual([expect.closeTo(0), -1, 1, 1]);
  expect(await claim()).toEqual(['at once', 'since a minute ago']);
  expect(await claim()).toEqual([]);
  await db.sql("UPDATE outbox_event SET due_at = due_at - interval '60 seconds' WHERE claim_token IS NULL");
  expect(await claim()).toEqual(['by dueAt', 'by delaySeconds']);
});

test('a lease of 30 s holds at 15 s and is over at 31 s', async () => {
  await ask({ do: 'record', type: 'leased' });
  expect(await claim()).toEqual(['leased']);
  await age(15);
  expect(await claim()).toEqual([]);
  await age(16);
  expect(await claim()).toEqual(['leased']);
});

test("a later claim's lower bound is the instant that the earlier one reported", async () => {
  await ask({ do: 'record', type: 'seen' });
  const [seen] = await ask<Claimed[]>({ do: 'claim' });
  await age(31);
  const dueAt = seen?.dueAt ?? 0;
  expect(Math.abs(dueAt * 1_000 - Date.now())).toBeLessThan(20_000);
  expect(await claim(dueAt + 1)).toEqual([]);
  expect(await claim(dueAt - 1)).toEqual(['seen']);
});

test("the envelope's time is the instant of recording, in UTC", async () => {
  await ask({ do: 'record', type: 'stamped' });
  const [event] = await ask<Claimed[]>({ do: 'claim' });
  const { time } = JSON.parse(event?.body ?? '{}') as { time: string };
  expect(time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
  const [row] = await db.sql<{ ms: number }>(
    'SELECT extract(epoch FROM recorded_at)::float8 * 1000 AS ms FROM outbox_event',
  );
  expect(Math.abs(Date.parse(time) - (row?.ms ?? 0))).toBeLessThan(1);
  expect(Math.abs(Date.parse(time) - Date.now())).toBeLessThan(20_000);
});

test('prune takes what was published 25 hours ago and leaves what was 23 hours ago', async () => {
  await insertEvents(db, 2, (n) => published({ hoursAgo: n === 0 ? 25 : 23 }));
  expect(await ask({ do: 'prune', retentionHours: 24 })).toBe(1);
  expect(await db.sql('SELECT count(*) AS n FROM outbox_event')).toEqual([{ n: 1 }]);
});
