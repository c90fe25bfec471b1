// One history from beginning to judgement.

import { setTimeout as sleep } from 'node:timers/promises';
import { describeError } from '../../functions/shared/errors.ts';
import { inScope } from '../support/cleanup.ts';
import { until } from '../support/wait.ts';
import { check, type Violation } from './checker.ts';
import { programOf } from './draw.ts';
import { strikeDisasters, type SpareServer } from './disasters.ts';
import { runErrands } from './errands.ts';
import { gather, sessionsLeft, type Evidence } from './evidence.ts';
import { layTraps, strikeBlows } from './faults.ts';
import { deliverOn, mappingOf, tickOn } from './invocations.ts';
import { produce } from './producers.ts';
import { DEAD_LETTERS, FIFO, QUEUES, STANDARD, type Program } from './program.ts';
import { comeToRest } from './rest.ts';
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
 * Runs the history of a seed and judges it; one that befalls the whole server gets the spare one, when its turn comes.
 * What breaks the history itself counts as a violation, and costs the other histories nothing.
 */
export async function runHistory(ground: Ground, spare: SpareServer, seed: number): Promise<History> {
  const program = programOf(seed);
  try {
    if (program.disasters.length === 0) return await run(ground, program);
    return await spare.use((server) => run({ ...ground, server }, program));
  } catch (cause) {
    const what = describeError(cause, 2_000);
    const violations = [{ promise: 'the history itself', what, ids: [] }];
    return { seed, violations, timeline: [], strikes: {}, counts: {}, milliseconds: 0 };
  }
}

async function run(ground: Ground, program: Program): Promise<History> {
  const began = performance.now();
  return inScope(async () => {
    const world = await createWorld(ground, program);
    const restless = await play(world);
    const evidence = await gather(world);
    const violations = [...restless, ...check(evidence)];
    const ids = new Set(violations.flatMap((violation) => violation.ids));
    return {
      seed: program.seed,
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
    await Promise.all([produce(world), runErrands(world), strikeBlows(world), strikeDisasters(world), first]);
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
