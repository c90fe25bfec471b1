import { randomBytes, randomUUID } from 'node:crypto';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { noCounts } from '../functions/relay/counts.ts';
import { tick } from '../functions/relay/tick.ts';
import { storeOf, type Store } from '../functions/shared/store.ts';
import type { PrismaClient } from '../prisma/client/client.ts';
import { createDatabase, createPrisma, type TestDatabase } from './support/database.ts';
import {
  dueIn,
  insertEvent,
  insertEvents,
  leased,
  leaseExpired,
  parked,
  published,
} from './support/factories.ts';
import { raiseOn, setTimeZone, type PlannerSwitch } from './support/knobs.ts';
import { startProcess, type TestProcess } from './support/process.ts';
import { claimSome, outboxRow, outboxRows, relayParts } from './support/relay.ts';
import { startScriptedSqs } from './support/scripted-sqs.ts';
import { soon, until } from './support/wait.ts';

/** A process on a busy machine loads Prisma for seconds. */
const START_WITHIN_MS = 25_000;

let db: TestDatabase;
let prisma: PrismaClient;
let store: Store;

beforeAll(async () => {
  db = await createDatabase();
  prisma = createPrisma(db.url, { max: 3 });
  store = storeOf(prisma);
});
beforeEach(() => db.sql('TRUNCATE outbox_event'));

const sequencesOf = ({ events }: { events: readonly { sequence: bigint }[] }) =>
  events.map(({ sequence }) => sequence);

/** A store on a session of its own with these settings. */
function storeWith(...options: string[]): Store {
  const url = new URL(db.url);
  url.searchParams.set('options', options.join(' '));
  return storeOf(createPrisma(url.href, { max: 1 }));
}

const isReady = (message: unknown): message is { now: number } => 'now' in Object(message);

/** A process that claims on demand, connected already. */
async function startClaimer(options: Parameters<typeof startProcess>[1] = {}) {
  const claimer = startProcess(new URL('./support/programs/claim.ts', import.meta.url), {
    ...options,
    env: { DATABASE_URL: db.url, ...options.env },
  });
  const { now } = await claimer.message(isReady, START_WITHIN_MS);
  return { claimer, now, claim: (limit = 10) => claimIn(claimer, limit) };
}

async function claimIn(claimer: TestProcess, limit: number): Promise<{ token: string; sequences: bigint[] }> {
  const token = randomUUID();
  claimer.send({ go: { token, limit, leaseSeconds: 60, dueFrom: null } });
  return claimer.message(
    (message): message is { token: string; sequences: bigint[] } =>
      (message as { token?: unknown }).token === token,
  );
}

// Promise 2; the contract of seeds/000, on the database that is deployed.
describe('one winner', () => {
  test('two connections race for one row, again and again: one changes it, the other changes nothing', async () => {
    const rivals = [prisma, createPrisma(db.url, { max: 1 })].map(storeOf);
    for (let round = 0; round < 30; round += 1) {
      const { sequence } = await insertEvent(db);
      const claims = await Promise.all(rivals.map((rival) => claimSome(rival)));
      expect(claims.flatMap(sequencesOf)).toEqual([sequence]);
      const [winner] = claims.filter(({ events }) => events.length === 1);
      expect(await outboxRow(db, sequence)).toMatchObject({ claimToken: winner?.token, attempts: 1 });
    }
  });

  test('two processes race for one row, again and again', async () => {
    const rivals = await Promise.all([startClaimer(), startClaimer()]);
    for (let round = 0; round < 20; round += 1) {
      const { sequence } = await insertEvent(db);
      const claims = await Promise.all(rivals.map(({ claim }) => claim()));
      expect(claims.flatMap(({ sequences }) => sequences)).toEqual([sequence]);
      const [winner] = claims.filter(({ sequences }) => sequences.length === 1);
      expect(await outboxRow(db, sequence)).toMatchObject({ claimToken: winner?.token, attempts: 1 });
    }
  });

  test('who comes while the claim is not yet committed neither waits nor wins, before or after', async () => {
    const { sequence } = await insertEvent(db);
    const token = randomUUID();
    await prisma.$transaction(async (tx) => {
      await claimSome(storeOf(tx), { token });
      expect(sequencesOf(await soon(claimSome(store), { within: 4_000 }))).toEqual([]);
    });
    expect(sequencesOf(await claimSome(store))).toEqual([]);
    expect(await outboxRow(db, sequence)).toMatchObject({ claimToken: token, attempts: 1 });
  });

  test('a claim that was rolled back is none', async () => {
    const { sequence } = await insertEvent(db);
    const rolledBack = prisma.$transaction(async (tx) => {
      await claimSome(storeOf(tx));
      throw new Error('the relay died');
    });
    await expect(rolledBack).rejects.toThrow('the relay died');
    expect(sequencesOf(await claimSome(store))).toEqual([sequence]);
    expect((await outboxRow(db, sequence)).attempts).toBe(1);
  });

  // Design, promise 2: a lost race once paid a five-minute back-off meant for network errors.
  test('losing is no error: nothing is published, no attempt is spent, no back-off begins', async () => {
    const { sequence } = await insertEvent(db, leased({ secondsLeft: 30 }));
    const before = await outboxRow(db, sequence);
    const sqs = await startScriptedSqs();
    const relay = relayParts(prisma, sqs);
    expect(await tick(relay, () => 5_000)).toEqual(noCounts());
    expect(sqs.calls).toEqual([]);
    expect(relay.reported).toEqual([]);
    const { attempts, releases, claimToken } = before;
    expect(await outboxRow(db, sequence)).toMatchObject({ attempts, releases, claimToken });
  });
});

describe('what may be claimed', () => {
  test('only pending rows that are due and that nobody holds', async () => {
    const situations = [{}, leaseExpired(), leased(), dueIn(60), published(), parked()];
    const [due, expired] = await insertEvents(db, situations.length, (n) => situations[n] ?? {});
    expect(sequencesOf(await claimSome(store))).toEqual([due?.sequence, expired?.sequence]);
  });

  test('those that have been due longest first, each once', async () => {
    const ages = [5, 30, 10, 20, 1];
    const events = await insertEvents(db, ages.length, (n) => dueIn(-(ages[n] ?? 0)));
    const claims = [];
    for (const limit of [2, 2, 2]) claims.push(sequencesOf(await claimSome(store, { limit })));
    // Within a claim they come in sequence order, the order in which they are settled.
    const expected = [[1, 3], [0, 2], [4]].map((claim) => claim.map((n) => events[n]?.sequence));
    expect(claims).toEqual(expected);
  });

  test('none that was due before the bound that later claims of a run have', async () => {
    const events = await insertEvents(db, 3, (n) => dueIn(-30 + 10 * n));
    const dueFrom = Date.now() / 1_000 - 25;
    expect(sequencesOf(await claimSome(store, { dueFrom }))).toEqual([
      events[1]?.sequence,
      events[2]?.sequence,
    ]);
    expect(sequencesOf(await claimSome(store))).toEqual([events[0]?.sequence]);
  });

  test('it brings what was recorded, payload and times to the last digit', async () => {
    const { sequence, eventId } = await insertEvent(db, {
      ...dueIn(-10),
      payloadText: '{"b":1.0, "a":"\\u0000"}',
      attempts: 2,
      lastError: 'Throttled',
    });
    const [row] = await db.sql<{
      recordedAt: string;
      dueAt: number;
    }>(`SELECT extract(epoch FROM due_at)::float8 AS "dueAt",
      to_char(recorded_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS "recordedAt" FROM outbox_event`);
    // Case D6: whatever the session's time zone, the time is in UTC.
    const inKolkata = storeWith('-c TimeZone=Asia/Kolkata');
    expect((await claimSome(inKolkata)).events).toMatchObject([
      {
        sequence,
        eventId,
        destination: 'stock',
        source: '/orders',
        type: 'order.placed',
        payload: '{"b":1.0, "a":"\\u0000"}',
        recordedAt: row?.recordedAt,
        dueAt: row?.dueAt,
        attempts: 3,
        releases: 0,
        lastError: 'Throttled',
      },
    ]);
  });

  test.each([0, -1, 1.5, Number.NaN, '5; DROP TABLE outbox_event'])(
    'a limit of %s is refused before any SQL',
    async (limit) => {
      await insertEvent(db);
      await expect(claimSome(store, { limit: limit as number })).rejects.toThrow(RangeError);
      expect((await outboxRows(db)).map(({ attempts }) => attempts)).toEqual([0]);
    },
  );
});

describe('lease', () => {
  test('a row is held until its lease runs out, and then claimed by the next who comes', async () => {
    const { sequence } = await insertEvent(db);
    const first = await claimSome(store, { leaseSeconds: 0.5 });
    expect(sequencesOf(await claimSome(store))).toEqual([]);
    const second = await until(async () => {
      const claim = await claimSome(store);
      return claim.events.length > 0 && claim;
    });
    // Ours ended no later than the database's: nobody else had the row while we still counted.
    expect(first.leaseLeft()).toBeLessThanOrEqual(0);
    expect(second.events).toMatchObject([{ sequence, attempts: 2 }]);
    expect(await outboxRow(db, sequence)).toMatchObject({ claimToken: second.token, attempts: 2 });
  });

  test('it is as long as asked for', async () => {
    const { sequence } = await insertEvent(db);
    const { leaseLeft } = await claimSome(store, { leaseSeconds: 60 });
    const { leaseInSeconds } = await outboxRow(db, sequence);
    expect(leaseInSeconds).toBeGreaterThan(40);
    expect(leaseInSeconds).toBeLessThanOrEqual(60);
    expect(leaseLeft()).toBeLessThanOrEqual(60_000);
  });

  // Case A5.
  test('a relay whose clock is ten minutes fast takes neither a held row nor one due later', async () => {
    const [held, later, due] = await insertEvents(
      db,
      3,
      (n) => [leased({ secondsLeft: 60 }), dueIn(300), {}][n] ?? {},
    );
    const { claim, now } = await startClaimer({ clockAheadMs: 600_000 });
    expect(now - Date.now()).toBeGreaterThan(590_000);
    expect((await claim()).sequences).toEqual([due?.sequence]);
    expect((await outboxRow(db, held?.sequence)).attempts).toBe(1);
    expect((await outboxRow(db, later?.sequence)).attempts).toBe(0);
    const { leaseInSeconds } = await outboxRow(db, due?.sequence);
    expect(leaseInSeconds).toBeLessThanOrEqual(60);
  });

  // Case D6.
  test('database in New York, process in Kolkata: due in 60 s is not due, 30 s of lease still hold', async () => {
    await setTimeZone(db, 'America/New_York');
    try {
      const situations = [dueIn(60), leased({ secondsLeft: 15 }), {}];
      const [, , due] = await insertEvents(db, 3, (n) => situations[n] ?? {});
      const { claim } = await startClaimer({ env: { TZ: 'Asia/Kolkata' } });
      expect((await claim()).sequences).toEqual([due?.sequence]);
      const claimed = await outboxRow(db, due?.sequence);
      expect(claimed.leaseInSeconds).toBeGreaterThan(40);
      expect(claimed.leaseInSeconds).toBeLessThanOrEqual(60);
    } finally {
      await setTimeZone(db, 'UTC');
    }
  });
});

// Case A4: `WHERE sequence IN (SELECT … LIMIT 5 FOR UPDATE SKIP LOCKED)` took all 1,000 rows.
describe('never more than the limit, whatever the planner may not do', () => {
  const switches: PlannerSwitch[][] = [
    [],
    ['hashjoin', 'mergejoin', 'material', 'sort', 'hashagg'],
    ['hashjoin', 'mergejoin', 'material', 'sort', 'hashagg', 'indexscan', 'bitmapscan'],
    ['seqscan', 'bitmapscan'],
    ['nestloop', 'hashjoin'],
    ['nestloop', 'mergejoin', 'indexscan', 'indexonlyscan', 'bitmapscan'],
  ];

  test.each(['on a fresh table without statistics', 'on an analyzed one'])('%s', async (which) => {
    await insertEvents(db, 1_000);
    if (which === 'on an analyzed one') await db.sql('ANALYZE outbox_event');
    for (const forbidden of switches) {
      const options = forbidden.map((name) => `-c enable_${name}=off`);
      const hostile = storeWith('-c plan_cache_mode=force_generic_plan', ...options);
      const { token, events } = await claimSome(hostile, { limit: 5 });
      const [held] = await db.sql('SELECT count(*) AS n FROM outbox_event WHERE claim_token = $1', [token]);
      expect([forbidden, events.length, held?.['n']]).toEqual([forbidden, 5, 5]);
    }
  });
});

/** Bytes of each payload, and whether somebody holds it. */
const sizes = async () => {
  const rows = await db.sql<{ bytes: number; held: boolean }>(
    'SELECT octet_length(payload::text) AS bytes, claim_token IS NOT NULL AS held FROM outbox_event ORDER BY sequence',
  );
  return rows.map(({ bytes, held }) => [bytes, held]);
};
const ofBytes = (bytes: number) => ({ payload: 'x'.repeat(bytes - 2) });

describe('never more bytes of payload than asked for, but for one event alone', () => {
  test('what fits is claimed, oldest first, and there may be more', async () => {
    for (const bytes of [400, 500, 300, 50]) await insertEvent(db, ofBytes(bytes));
    expect(await claimSome(store, { bytes: 900 })).toMatchObject({ full: true });
    expect(await sizes()).toEqual([
      [400, true],
      [500, true],
      [300, false],
      [50, false],
    ]);
    expect(await claimSome(store, { bytes: 900 })).toMatchObject({ full: false });
    expect((await sizes()).every(([, held]) => held)).toBe(true);
  });

  test('one that is larger goes alone', async () => {
    for (const bytes of [2_000, 10, 2_000]) await insertEvent(db, ofBytes(bytes));
    for (let claims = 1; claims <= 3; claims += 1) {
      const { events, full } = await claimSome(store, { bytes: 900 });
      expect([events.length, full]).toEqual([1, claims < 3]);
    }
  });
});

interface PlanNode {
  'Node Type': string;
  'Index Name'?: string;
  'Actual Rows'?: number;
  'Shared Hit Blocks'?: number;
  'Shared Read Blocks'?: number;
  Plans?: PlanNode[];
}

/** The claim's plan as the server carried it out, on the statement that the relay really sends. */
async function planOfClaim(
  database: TestDatabase,
  { dueFrom = null, bytes }: { dueFrom?: number | null; bytes?: number } = {},
): Promise<PlanNode[]> {
  const sent: { text: string; values: readonly unknown[] }[] = [];
  const spy: Store = {
    query: (text, values) => (sent.push({ text, values }), Promise.resolve([])),
    execute: () => Promise.resolve(0),
  };
  await claimSome(spy, { limit: 100, dueFrom, ...(bytes && { bytes }) });
  const [statement] = sent;
  const [row] = await database.sql<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(
    `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${statement?.text}`,
    [...(statement?.values ?? [])],
  );
  const flat = (node: PlanNode): PlanNode[] => [node, ...(node.Plans ?? []).flatMap(flat)];
  return row ? flat(row['QUERY PLAN'][0].Plan) : [];
}

/** Pages read by a claim of three large events out of so many. */
const pagesWith = async (events: number) => {
  const own = await createDatabase();
  // Random text, or PostgreSQL would pack it small.
  await insertEvents(own, events, () => ({ payload: randomBytes(75_000).toString('base64') }));
  const [root] = await planOfClaim(own, { bytes: 250_000 });
  return (root?.['Shared Hit Blocks'] ?? 0) + (root?.['Shared Read Blocks'] ?? 0);
};

test('of large events only those that fit are unpacked to be measured', async () => {
  const few = await pagesWith(3);
  expect(few).toBeGreaterThan(30);
  expect(await pagesWith(60)).toBeLessThan(2 * few);
});

describe('at 100,000 due rows', () => {
  test('the claim reads its partial index in order, and neither scans nor sorts the table', async () => {
    await db.sql(`INSERT INTO outbox_event (event_id, destination, source, type, payload, due_at, state, published_at)
      SELECT gen_random_uuid(), 'stock', '/orders', 'order.placed', '{}', now() - n * interval '1 ms',
        CASE WHEN n % 5 = 0 THEN 'PUBLISHED' ELSE 'PENDING' END, CASE WHEN n % 5 = 0 THEN now() END
      FROM generate_series(1, 125000) n`);
    const look = async (dueFrom: number | null) => {
      const nodes = await planOfClaim(db, { dueFrom });
      const types = nodes.map((node) => node['Node Type']);
      expect(types).not.toContain('Seq Scan');
      expect(types.filter((type) => type.includes('Sort'))).toEqual([]);
      const due = nodes.find((node) => node['Index Name'] === 'outbox_event_due');
      expect(due?.['Node Type']).toBe('Index Scan');
      expect(due?.['Actual Rows']).toBe(100);
      expect(types).toContain('LockRows');
    };
    await look(null);
    await look(Date.now() / 1_000 - 60);
    await db.sql('ANALYZE outbox_event');
    await look(null);
    await look(Date.now() / 1_000 - 60);
  });
});

test('claims are heap-only updates: no index grows with them', async () => {
  const own = await createDatabase();
  const client = createPrisma(own.url, { max: 1 });
  await insertEvents(own, 1_000);
  for (let claim = 0; claim < 10; claim += 1) await claimSome(storeOf(client), { limit: 100 });
  // A session writes its statistics when it ends, at the latest.
  await client.$disconnect();
  const updates = () =>
    own.sql<{ all: number; hot: number }>(
      `SELECT n_tup_upd AS all, n_tup_hot_upd AS hot FROM pg_stat_user_tables WHERE relname = 'outbox_event'`,
    );
  await until(async () => (await updates())[0]?.all === 1_000);
  expect(await updates()).toEqual([{ all: 1_000, hot: 1_000 }]);
});

describe('when PostgreSQL ends the claim', () => {
  test.each(['40P01', '40001'])('to resolve a conflict (%s), it is made again', async (sqlState) => {
    const own = await createDatabase();
    const { sequence } = await insertEvent(own);
    const raised = await raiseOn(own, { table: 'outbox_event', on: 'UPDATE', sqlState, times: 2 });
    const claim = await claimSome(storeOf(createPrisma(own.url, { max: 1 })));
    expect([await raised(), sequencesOf(claim)]).toEqual([2, [sequence]]);
    expect((await outboxRow(own, sequence)).attempts).toBe(1);
  });

  test('three times in a row, it gives up and says why', async () => {
    const own = await createDatabase();
    await insertEvent(own);
    const raised = await raiseOn(own, { table: 'outbox_event', on: 'UPDATE', sqlState: '40P01', times: 9 });
    await expect(claimSome(storeOf(createPrisma(own.url, { max: 1 })))).rejects.toThrow();
    expect(await raised()).toBe(3);
  });

  test('for any other reason, it is not made again', async () => {
    const own = await createDatabase();
    await insertEvent(own);
    const raised = await raiseOn(own, { table: 'outbox_event', on: 'UPDATE', sqlState: '53100', times: 9 });
    await expect(claimSome(storeOf(createPrisma(own.url, { max: 1 })))).rejects.toThrow();
    expect(await raised()).toBe(1);
  });
});
