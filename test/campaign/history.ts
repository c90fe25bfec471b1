// One history from beginning to judgement.

import { setTimeout as sleep } from 'node:timers/promises';
import { countdown } from '../../functions/shared/deadline.ts';
import { inScope } from '../support/cleanup.ts';
import { until } from '../support/wait.ts';
import { check, type Violation } from './checker.ts';
import { programOf } from './draw.ts';
import { ERRANDS, runErrands } from './errands.ts';
import { gather, sessionsLeft, type Evidence } from './evidence.ts';
import { layTraps } from './faults.ts';
import { deliverOn, mappingOf, tickOn } from './invocations.ts';
import { produce } from './producers.ts';
import { DEAD_LETTERS, FIFO, QUEUES, STANDARD } from './program.ts';
import { createWorld, type Ground, type World } from './world.ts';

/** How a history went. */
export interface History {
  readonly seed: number;
  readonly violations: readonly Violation[];
  /** Of what concerns the violations; empty without any. */
  readonly timeline: readonly string[];
  /** Faults that struck and errands that were done, by kind. */
  readonly strikes: Readonly<Record<string, number>>;
  readonly counts: Readonly<Record<string, number>>;
  readonly milliseconds: number;
}

/** Faults go on for so long, and for a little longer than producers. */
const FAULTY_MS = 1_500;
const AFTERMATH_MS = 400;
/**
 * Until the system must have come to rest once faults have stopped: seconds on an idle machine. One with ten times more
 * work than cores needed more than a minute.
 */
const REST_MS = 180_000;
const LOOK_EVERY_MS = 60;

/** Runs the history of a seed and judges it. */
export async function runHistory(ground: Ground, seed: number): Promise<History> {
  const began = performance.now();
  return inScope(async () => {
    const world = await createWorld(ground, programOf(seed));
    const restless = await play(world);
    const evidence = await gather(world);
    const violations = [...restless, ...check(evidence)];
    const ids = new Set(violations.flatMap((violation) => violation.ids));
    return {
      seed,
      violations,
      timeline: violations.length > 0 ? world.timeline.about(ids) : [],
      strikes: world.timeline.strikes,
      counts: countsOf(world, evidence),
      milliseconds: Math.round(performance.now() - began),
    };
  });
}

/** Everybody acts under faults; then the faults stop, and everybody goes on until there is nothing left to do. */
async function play(world: World): Promise<Violation[]> {
  layTraps(world);
  const mappings = [STANDARD, FIFO].map((name) => mappingOf(world, name as typeof STANDARD | typeof FIFO));
  const acting = [
    ...world.relays.map((slot) => tickOn(world, slot)),
    ...mappings.flatMap((mapping) =>
      world.consumers[mapping.name].map((slot) => deliverOn(world, mapping, slot)),
    ),
  ];
  try {
    const first = sleep(world.program.calm ? 0 : FAULTY_MS);
    await Promise.all([produce(world), runErrands(world), first]);
    if (!world.program.calm) await sleep(AFTERMATH_MS);
    world.faulty = false;
    world.timeline.add('campaign', 'faults stop');
    return await comeToRest(world, () => mappings.every(({ again }) => again.length === 0));
  } finally {
    world.over = true;
    await Promise.all(acting);
    await until(async () => isLeft(await sessionsLeft(world)), { within: 20_000 }).catch(() => undefined);
  }
}

const isLeft = ({ openTransactions, locks }: Pick<Evidence, 'openTransactions' | 'locks'>) =>
  openTransactions === 0 && locks === 0;

/** Waits for rest, while a person mends, redrives and, where the program says so, replays. */
async function comeToRest(world: World, delivered: () => boolean): Promise<Violation[]> {
  const { program, timeline } = world;
  await world.sql('INSERT INTO mended DEFAULT VALUES');
  timeline.add('a person', 'mends the poison');
  const deadline = countdown(REST_MS);
  for (;;) {
    const { waiting, parked } = await outboxLeft(world);
    if (parked > 0 && program.replaysInTheEnd) await ERRANDS.replay(world);
    await ERRANDS.redrive(world);
    const done = waiting === 0 && (parked === 0 || !program.replaysInTheEnd);
    if (done && world.underway === 0 && delivered() && queuesAreEmpty(world)) return [];
    if (deadline() < 0) {
      const what = `${waiting} events wait, ${parked} are parked, ${REST_MS} ms after the last fault`;
      return [{ promise: 'it comes to rest', what, ids: [] }];
    }
    await sleep(LOOK_EVERY_MS);
  }
}

const queuesAreEmpty = ({ sqs }: World): boolean =>
  [...Object.values(QUEUES), DEAD_LETTERS].every((queue) =>
    sqs.stored(queue).every(({ deleted }) => deleted),
  );

/** Pending rows, without those that wait behind a parked event of their key, and parked rows. */
async function outboxLeft({ sql, program }: World): Promise<{ waiting: number; parked: number }> {
  const [row] = await sql<{ waiting: number; parked: number }>(
    `SELECT count(*) FILTER (WHERE state = 'PARKED')::int AS parked,
       count(*) FILTER (WHERE state = 'PENDING' AND NOT ($1 AND EXISTS (
         SELECT FROM outbox_event AS head WHERE head.destination = e.destination AND head.state = 'PARKED'
           AND head.ordering_key = e.ordering_key AND head.sequence < e.sequence)))::int AS waiting
     FROM outbox_event AS e`,
    [program.settings.parkedHead === 'hold'],
  );
  return row ?? { waiting: 0, parked: 0 };
}

function countsOf(
  { program, sqs }: World,
  { committed, rows, arrivals, effects }: Evidence,
): History['counts'] {
  const planned = program.producers.flat();
  const stored = [arrivals[STANDARD], arrivals[FIFO]].flat();
  return {
    'transactions begun': planned.length,
    'events committed': committed.size,
    'events rolled back or cut off': planned.flatMap(({ events }) => events).length - committed.size,
    'outbox rows committed': [...committed.values()].flatMap(({ destinations }) => destinations).length,
    'messages accepted by queues': stored.length,
    'messages given out': Object.values(QUEUES)
      .flatMap((queue) => sqs.stored(queue))
      .reduce((sum, { receiveCount }) => sum + receiveCount, 0),
    'effects applied': effects.length,
    'rows parked in the end': rows.filter(({ state }) => state === 'PARKED').length,
    'dead letters': arrivals[DEAD_LETTERS].length,
  };
}
