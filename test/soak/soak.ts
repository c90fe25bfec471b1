// A steady load under faults for minutes: memory, connections and tables must stay flat.

import { setTimeout as sleep } from 'node:timers/promises';
import { pruneLedger, pruneOutbox } from '../../functions/prune/prune.ts';
import { countdown } from '../../functions/shared/deadline.ts';
import { storeOf } from '../../functions/shared/store.ts';
import { diceOf } from '../campaign/dice.ts';
import { deliverOn, mappingOf, tickOn } from '../campaign/invocations.ts';
import { DEAD_LETTERS, FIFO, QUEUES, STANDARD, type Program } from '../campaign/program.ts';
import { comeToRest } from '../campaign/rest.ts';
import { startPool } from '../campaign/sandbox.ts';
import { createWorld, prepareGround, type Ground, type World } from '../campaign/world.ts';
import { inScope } from '../support/cleanup.ts';
import { runAsAdmin } from '../support/server.ts';
import { produceOn, redeliverOn, strikeOn } from './load.ts';
import { growth, takeSample, type Sample } from './samples.ts';

const OUTBOX_RETENTION_SECONDS = 5;
/** What is older than half of it, pending or in a queue, keeps the ledger whole: it may still come, for the second time. */
const LEDGER_RETENTION_SECONDS = 90;
const PRUNE_EVERY_MS = 3_000;
const SAMPLES = 60;
/** Of the rate asked for; one transaction in ten is rolled back, and cut connections cost a few. */
const LEAST_LOAD = 0.6;
/** One of each kind is never killed: what leaks, leaks there. */
const SPARED = new Set(['relay-0', `${STANDARD}-0`, `${FIFO}-0`]);

export interface SoakOptions {
  readonly minutes: number;
  /** Events a second. */
  readonly rate: number;
  readonly seed: number;
  readonly onSample?: (sample: Sample) => void;
}

/** What a soak came to; `problems` is empty when all went well. */
export interface SoakResult {
  readonly samples: readonly Sample[];
  readonly events: number;
  readonly strikes: Readonly<Record<string, number>>;
  readonly problems: readonly string[];
}

/** Runs it on a server of its own, whose autovacuum looks as often as retention here is short. */
export async function runSoak(server: Ground['server'], options: SoakOptions): Promise<SoakResult> {
  await runAsAdmin(
    server.adminUrl,
    ["ALTER SYSTEM SET autovacuum_naptime = '3s'"],
    ['SELECT pg_reload_conf()'],
  );
  await prepareGround(server);
  const pool = await startPool(6, 1);
  try {
    return await inScope(() => soak({ server, pool }, options));
  } finally {
    pool.stop();
  }
}

async function soak(ground: Ground, { minutes, rate, seed, onSample }: SoakOptions): Promise<SoakResult> {
  const world = await createWorld(ground, programOf(seed));
  const dice = diceOf(seed, 'soak');
  const mappings = [mappingOf(world, STANDARD), mappingOf(world, FIFO)];
  const acting = [
    ...world.relays.map((slot) => tickOn(world, slot)),
    ...mappings.flatMap((mapping) =>
      world.consumers[mapping.name].map((slot) => deliverOn(world, mapping, slot)),
    ),
  ];
  const load = new AbortController();
  const loading = [
    produceOn(world, load.signal, dice.apart('load'), rate),
    strikeOn(world, load.signal, dice.apart('faults'), SPARED),
    redeliverOn(load.signal, dice.apart('deliveries'), mappings),
    pruneOn(world, load.signal),
  ];
  try {
    const samples = await observe(world, minutes * 60, onSample);
    load.abort();
    await Promise.all(loading);
    world.faulty = false;
    const restless = await comeToRest(world, () => mappings.every(({ again }) => again.length === 0));
    const { events, wrong } = await judge(world);
    const held = events / (minutes * 60) > rate * LEAST_LOAD;
    const slow = held ? [] : [`the load was not held: ${events} events instead of ${rate * minutes * 60}`];
    const problems = [...slow, ...growth(samples), ...restless.map(({ what }) => what), ...wrong];
    return { samples, events, strikes: world.timeline.strikes, problems };
  } finally {
    load.abort();
    world.over = true;
    await Promise.all([...acting, ...loading]);
  }
}

const programOf = (seed: number): Program => ({
  seed,
  calm: false,
  settings: {
    relays: 2,
    consumers: 2,
    leaseSeconds: 2,
    callTimeoutSeconds: 0.5,
    claimLimit: 100,
    claimsUnderway: 4,
    maxAttempts: 100,
    keepPublished: true,
    parkedHead: 'hold',
    transactionPer: 'record',
    tickPauseMs: 200,
  },
  producers: [],
  traps: [],
  blows: [],
  disasters: [],
  answers: [],
  deliveries: { [STANDARD]: [], [FIFO]: [] },
  burials: [],
  errands: [],
  replaysInTheEnd: true,
});

async function observe(world: World, seconds: number, onSample?: SoakOptions['onSample']): Promise<Sample[]> {
  const samples: Sample[] = [];
  const began = performance.now();
  for (let n = 1; n <= SAMPLES; n += 1) {
    await sleep(Math.max(0, began + (n * seconds * 1_000) / SAMPLES - performance.now()));
    forgetDeleted(world);
    const sample = await takeSample(world, (performance.now() - began) / 1_000, SPARED);
    samples.push(sample);
    onSample?.(sample);
  }
  return samples;
}

/** The scripted queues keep every message for a checker; here there would be too many to look through. */
function forgetDeleted({ sqs }: World): void {
  for (const queue of [...Object.values(QUEUES), DEAD_LETTERS]) {
    const stored = sqs.stored(queue);
    stored.splice(0, stored.length, ...stored.filter(({ deleted }) => !deleted));
  }
}

async function pruneOn(world: World, end: AbortSignal): Promise<void> {
  const { prisma, timeline } = world;
  const store = storeOf(prisma);
  while (!end.aborted) {
    await sleep(PRUNE_EVERY_MS);
    await pruneOutbox(store, OUTBOX_RETENTION_SECONDS / 3_600, countdown(3_000));
    if ((await oldestSeconds(world)) < LEDGER_RETENTION_SECONDS / 2)
      await pruneLedger(store, LEDGER_RETENTION_SECONDS / 86_400, countdown(3_000));
    timeline.strike('prunes', 'prune', 'prunes');
  }
}

/** Age of the oldest event that is not yet published, or message that is not yet deleted. */
async function oldestSeconds({ sql, sqs }: World): Promise<number> {
  const [row] = await sql<{ age: number }>(
    `SELECT coalesce(max(extract(epoch FROM now() - recorded_at)), 0)::float8 AS age FROM outbox_event
     WHERE state <> 'PUBLISHED'`,
  );
  const sent = [...Object.values(QUEUES), DEAD_LETTERS].flatMap((queue) =>
    sqs.stored(queue).flatMap(({ sentAt, deleted }) => (deleted ? [] : sentAt)),
  );
  return Math.max(row?.age ?? 0, (Date.now() - Math.min(Date.now(), ...sent)) / 1_000);
}

/** From the tables alone: each destination of each committed event has exactly one effect. */
async function judge({ sql }: World): Promise<{ events: number; wrong: string[] }> {
  const [row] = await sql<{ events: number; missing: number; twice: number }>(
    `WITH wanted AS (
       SELECT destination AS consumer, (event->>'id')::uuid AS event_id FROM business, json_array_elements(events) AS event,
         json_array_elements_text(event->'destinations') AS destination),
     applied AS (SELECT consumer, event_id, count(*) AS times FROM effect GROUP BY 1, 2)
     SELECT count(wanted)::int AS events, count(*) FILTER (WHERE applied IS NULL OR wanted IS NULL)::int AS missing,
       count(*) FILTER (WHERE times > 1)::int AS twice
     FROM wanted FULL JOIN applied USING (consumer, event_id)`,
  );
  const { events = 0, missing = 0, twice = 0 } = row ?? {};
  return {
    events,
    wrong: [
      ...(missing > 0 ? [`${missing} effects are missing or without an event`] : []),
      ...(twice > 0 ? [`${twice} effects were applied more than once`] : []),
      ...(events === 0 ? ['nothing was recorded'] : []),
    ],
  };
}
