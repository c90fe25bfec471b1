// Whether the claim stays as cheap as on an empty table: kept rows, a backlog, rows in front, churn, an old snapshot.

import { randomUUID } from 'node:crypto';
import { Client } from 'pg';
import { acknowledge } from '../../functions/relay/acknowledge.ts';
import type { Claim } from '../../functions/relay/claim.ts';
import { relayConfig } from '../../functions/relay/config.ts';
import { dueLane, headLane } from '../../functions/relay/lanes.ts';
import { partsOf } from '../../functions/relay/relay.ts';
import type { RelayParts } from '../../functions/relay/parts.ts';
import { storeOf } from '../../functions/shared/store.ts';
import type { Bench, Benchmark } from './harness/bench.ts';
import { pgClient } from './harness/pg-client.ts';
import type { BenchDatabase } from './harness/postgres.ts';
import { figure, median, quantile } from './harness/stats.ts';

interface Situation {
  readonly name: string;
  readonly kept?: number;
  readonly pending: number;
  readonly keyed?: boolean;
  /** Rows before the due ones that cannot be claimed. */
  readonly leased?: number;
  readonly backedOff?: number;
}

interface Claimed {
  /** Milliseconds of claim and acknowledge together, a hundred events each. */
  readonly p50: number;
  readonly p95: number;
  readonly eventsPerSecond: number;
  readonly postgresMicros: number;
}

const CLAIM = 100;

// Ids as recordEvents makes them, in order of time: random ones would scatter over the whole index, and over its cache.
const ROW = `uuidv7(), 'stock', '/orders', 'order.placed', json_build_object('n', n, 'note', repeat('x', 280))`;
const KEPT = `INSERT INTO outbox_event (event_id, destination, source, type, payload, state, published_at, message_id, attempts, due_at)
  SELECT ${ROW}, 'PUBLISHED', now(), n::text, 1, now() - interval '2 hours' FROM generate_series(1, $1::int) AS n`;
const PENDING = `INSERT INTO outbox_event (event_id, destination, source, type, payload, ordering_key, due_at)
  SELECT ${ROW}, CASE WHEN $2 THEN 'key-' || n END, now() - interval '1 hour' FROM generate_series(1, $1::int) AS n`;
const LEASED = `INSERT INTO outbox_event (event_id, destination, source, type, payload, due_at, attempts, claim_token, lease_until)
  SELECT ${ROW}, now() - interval '90 minutes', 1, gen_random_uuid(), now() + interval '1 hour' FROM generate_series(1, $1::int) AS n`;
const BACKED_OFF = `INSERT INTO outbox_event (event_id, destination, source, type, payload, due_at, attempts, releases)
  SELECT ${ROW}, now() + interval '1 hour', 1, 1 FROM generate_series(1, $1::int) AS n`;
const CHURNED = `INSERT INTO outbox_event (event_id, destination, source, type, payload) SELECT ${ROW} FROM generate_series(1, $1::int) AS n`;

/** `npm run bench -- growth` */
export const growth: Benchmark = async (bench) => {
  const base = await measureAll(bench);
  const churned = await churnAll(bench);
  const empty = base[0]?.claimed.postgresMicros ?? NaN;
  const emptyMs = base[0]?.claimed.p50 ?? NaN;
  return {
    tables: [
      {
        title: 'Claim and acknowledge 100 events, by what else is in the table',
        columns: [
          '',
          'p50 ms',
          'p95 ms',
          'events/s',
          'PostgreSQL µs/event',
          'of the empty table: CPU',
          'time',
        ],
        rows: base.map(({ name, claimed: { p50, p95, eventsPerSecond, postgresMicros } }) => [
          name,
          ...[p50, p95, eventsPerSecond, postgresMicros, postgresMicros / empty, p50 / emptyMs].map(figure),
        ]),
        note: 'One loop over pg, the statements of the engine; claims as a running relay makes them.',
      },
      {
        title:
          'Churn through a nearly empty queue: 500 recorded, 500 claimed and acknowledged, again and again',
        columns: [
          '',
          'churned',
          'events/s: first tenth',
          'last tenth',
          'claim p50 ms: first',
          'last',
          'table MB',
        ],
        rows: churned.map(({ name, events, first, last, megabytes }) => [
          name,
          ...[events, first.eventsPerSecond, last.eventsPerSecond, first.p50, last.p50, megabytes].map(
            figure,
          ),
        ]),
        note: 'The time of recording is not counted. Pinned: another session holds a snapshot from before, so no dead row can go.',
      },
    ],
    data: { base, churned },
  };
};

async function measureAll(bench: Bench): Promise<({ claimed: Claimed } & Situation)[]> {
  const keptSizes = bench.pick([0, 200], [0, 200_000], [0, 1_000_000, 5_000_000]);
  const pendingSizes = bench.pick([400], [1_000, 50_000], [1_000, 100_000, 1_000_000]);
  const ahead = bench.pick(100, 20_000, 50_000);
  const pending = pendingSizes.at(-1) ?? 0;
  const situations: Situation[] = [
    ...keptSizes.flatMap((kept) =>
      pendingSizes.map((size) => ({
        name: `${figure(kept)} kept, ${figure(size)} pending`,
        kept,
        pending: size,
      })),
    ),
    { name: `${figure(ahead)} leased in front, ${figure(pending)} pending`, leased: ahead, pending },
    { name: `${figure(ahead)} backed off, ${figure(pending)} pending`, backedOff: ahead, pending },
    { name: `${figure(pending)} pending, an ordering key each`, keyed: true, pending },
  ];
  // The first time is for the code to warm up: it would make the empty table look slow.
  await measureOne(bench, { name: 'warm-up', pending });
  const measured = [];
  for (const situation of situations) {
    const claimed = await measureOne(bench, situation);
    bench.progress(`${situation.name}: ${figure(claimed.p50)} ms`);
    measured.push({ ...situation, claimed });
  }
  return measured;
}

async function measureOne(bench: Bench, situation: Situation): Promise<Claimed> {
  const { kept = 0, leased = 0, backedOff = 0, pending, keyed = false } = situation;
  const database = await bench.postgres.create();
  await database.sql(KEPT, kept);
  await database.sql(LEASED, leased);
  await database.sql(BACKED_OFF, backedOff);
  await database.sql(PENDING, pending, keyed);
  await database.settle();
  const claimed = await drain(bench, database, keyed, bench.pick(3, 100, 300));
  await database.drop();
  return claimed;
}

function relayOn(database: BenchDatabase): { parts: RelayParts; close: () => Promise<void> } {
  const config = relayConfig({
    DATABASE_URL: database.url,
    OUTBOX_DESTINATIONS: '{"stock":{"kind":"sqs","queueUrl":"http://127.0.0.1/unused"}}',
    OUTBOX_CLAIM_LIMIT: String(CLAIM),
  });
  const { client, pool } = pgClient(database.url);
  return { parts: { ...partsOf(client, config), store: storeOf(client) }, close: () => pool.end() };
}

/** Claims lane by lane as a tick does, without publishing; so many claims at most. */
async function drain(
  bench: Bench,
  database: BenchDatabase,
  keyed: boolean,
  claims: number,
): Promise<Claimed> {
  const { parts, close } = relayOn(database);
  const lane = keyed ? headLane(parts, new Map()) : dueLane(parts);
  // What a connection and a first plan cost is not the table's.
  await lane.next().then(({ claim }) => finish(parts, claim));
  const times: number[] = [];
  let events = 0;
  const cpu = bench.postgres.cpuMs();
  for (let n = 0; n < claims; n += 1) {
    const began = performance.now();
    const { claim, more } = await lane.next();
    await finish(parts, claim);
    if (claim.events.length > 0) times.push(performance.now() - began);
    events += claim.events.length;
    if (!more) break;
  }
  const postgresMs = bench.postgres.cpuMs() - cpu;
  await close();
  return claimedOf(times, events, postgresMs);
}

const finish = ({ store, config }: RelayParts, { token, events }: Claim) =>
  events.length === 0
    ? Promise.resolve(0)
    : acknowledge(
        store,
        token,
        events.map(({ sequence }) => ({ sequence, messageId: randomUUID() })),
        config,
      );

const claimedOf = (times: readonly number[], events: number, postgresMs: number): Claimed => ({
  p50: median(times),
  p95: quantile(times, 0.95),
  eventsPerSecond: (events / times.reduce((a, b) => a + b, 0)) * 1000,
  postgresMicros: (postgresMs * 1000) / events,
});

async function churnAll(bench: Bench) {
  const events = bench.pick(2_000, 40_000, 500_000);
  const cases = [
    { name: 'churn', pinned: false },
    { name: 'churn under a pinned snapshot', pinned: true },
  ];
  const all = [];
  for (const { name, pinned } of cases) {
    const churned = await churn(bench, events, pinned);
    bench.progress(`${name}: ${figure(churned.last.eventsPerSecond)} events/s at the end`);
    all.push({ name, events, ...churned });
  }
  return all;
}

/** One relay that runs on and on, as under steady load: its lane keeps its moving lower bound from claim to claim. */
async function churn(bench: Bench, events: number, pinned: boolean) {
  const chunk = 500;
  const database = await bench.postgres.create();
  const snapshot = new Client(database.url);
  await snapshot.connect();
  if (pinned)
    await snapshot.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM outbox_event');
  const { parts, close } = relayOn(database);
  const producer = new Client(database.url);
  await producer.connect();
  const lane = dueLane(parts);
  const rounds: Claimed[] = [];
  for (let done = 0; done < events; done += chunk) {
    await producer.query(CHURNED, [chunk]);
    const times: number[] = [];
    for (let claimed = 0; claimed < chunk;) {
      const began = performance.now();
      const { claim } = await lane.next();
      await finish(parts, claim);
      times.push(performance.now() - began);
      claimed += claim.events.length;
    }
    rounds.push(claimedOf(times, chunk, 0));
  }
  const [size] = await database.sql("SELECT pg_total_relation_size('outbox_event') / 1e6 AS megabytes");
  await snapshot.end();
  await producer.end();
  await close();
  await database.drop();
  const tenth = Math.max(1, Math.floor(rounds.length / 10));
  const over = (part: readonly Claimed[]) => ({
    eventsPerSecond: median(part.map(({ eventsPerSecond }) => eventsPerSecond)),
    p50: median(part.map(({ p50 }) => p50)),
  });
  return {
    first: over(rounds.slice(0, tenth)),
    last: over(rounds.slice(-tenth)),
    megabytes: Number(size?.['megabytes']),
  };
}
