// Lays the program's traps: on the ways to the database, and in the answers of the queues.

import { setTimeout as sleep } from 'node:timers/promises';
import * as answers from '../support/scripted-sqs.ts';
import type { ProxyAction, Rule, TcpProxy } from '../support/tcp-proxy.ts';
import {
  DEAD_LETTERS,
  STATEMENTS,
  type Blow,
  type EntryAnswer,
  type PlannedAnswer,
  type Trap,
} from './program.ts';
import { ONLOOKER, slotsOf, type Slot, type World } from './world.ts';

/** So much longer than its lease a process stays frozen. */
const BEYOND_LEASE_MS = 300;
/** Time for a statement to be carried out while its answer is held. */
const CARRIED_OUT_MS = 15;
const SLOW_MS = 250;
const OUTAGE_MS = 250;

export function layTraps(world: World): void {
  for (const trap of world.program.traps) {
    const way = world.ways.get(trap.actor);
    if (way) layTrap(world, trap, way);
  }
  const answerTo = plannedAnswers(world);
  world.sqs.on((call) => (world.faulty ? answerTo(call) : undefined));
}

/** It springs once. */
export function layTrap(world: World, trap: Trap, way: TcpProxy): void {
  let seen = 0;
  const springs = (sql: string) =>
    world.faulty && STATEMENTS[trap.statement].test(sql) && (seen += 1) === trap.nth;
  const rule = way.once(springs, actionOf(trap));
  void rule.reached.then(() => spring(world, trap, rule));
}

function actionOf({ strike, side }: Trap): ProxyAction {
  if (strike === 'cut') return side === 'before' ? 'cut' : 'cutAnswer';
  return side === 'before' ? 'hold' : 'holdAnswer';
}

async function spring(world: World, trap: Trap, rule: Rule): Promise<void> {
  const { actor, strike, side, statement, nth } = trap;
  world.underway += 1;
  world.timeline.strike(`${strike} ${side} ${statement}`, actor, `${strike} ${side} ${statement} no. ${nth}`);
  try {
    if (side === 'after') await sleep(CARRIED_OUT_MS);
    await STRIKES[strike](world, trap, rule);
  } finally {
    rule.release();
    world.underway -= 1;
  }
}

const STRIKES: Record<Trap['strike'], (world: World, trap: Trap, rule: Rule) => unknown> = {
  kill: (world, { actor }) => slotOf(world, actor)?.sandbox?.kill(),
  freeze: (world, { actor, side }, rule) => {
    // What it had sent before it froze is answered meanwhile; what it was about to send waits until it thaws.
    if (side === 'after') setTimeout(rule.release, SLOW_MS);
    return freeze(world, actor);
  },
  // The proxy has done it.
  cut: () => undefined,
  terminate: (world, { actor }) => terminate(world, 'application_name = $1', actor),
  outage: async (world) => {
    for (const way of world.ways.values()) way.refuse(true);
    await terminate(world, 'true');
    await sleep(OUTAGE_MS);
    for (const way of world.ways.values()) way.refuse(false);
  },
  slow: () => sleep(SLOW_MS),
};

/** Strikes the program's blows, each at its time. */
export async function strikeBlows(world: World): Promise<void> {
  await Promise.all(
    world.program.blows.map(async ({ afterMs, actor, strike }) => {
      await sleep(afterMs);
      await strikeNow(world, actor, strike);
    }),
  );
}

/** Strikes a process, or its connections, wherever it is at this moment. */
export async function strikeNow(world: World, actor: string, strike: Blow['strike']): Promise<void> {
  const sandbox = slotOf(world, actor)?.sandbox;
  if (world.over || !sandbox?.alive()) return;
  world.timeline.strike(`${strike} anywhere`, actor, `${strike} wherever it is`);
  world.underway += 1;
  if (strike === 'kill') sandbox.kill();
  else if (strike === 'freeze') await freeze(world, actor);
  else world.ways.get(actor)?.cut();
  world.underway -= 1;
}

const slotOf = (world: World, actor: string): Slot | undefined =>
  slotsOf(world).find(({ name }) => name === actor);

async function freeze(world: World, actor: string): Promise<void> {
  const sandbox = slotOf(world, actor)?.sandbox;
  sandbox?.freeze();
  await sleep(world.program.settings.leaseSeconds * 1_000 + BEYOND_LEASE_MS);
  sandbox?.thaw();
  world.timeline.add(actor, 'thaws');
}

/** Ends sessions as the server itself does; those of onlookers stay. */
const terminate = ({ sql }: World, which: string, ...values: unknown[]) =>
  sql(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
     WHERE datname = current_database() AND backend_type = 'client backend' AND application_name <> '${ONLOOKER}'
       AND ${which}`,
    values,
  );

/** Each relay's calls that send get its answers, one after another, and then go as SQS would have it. */
function plannedAnswers(world: World): answers.Script {
  const { program, timeline } = world;
  const upcoming = new Map(world.relays.map(({ name }, n) => [name, [...(program.answers[n] ?? [])]]));
  const burials = [...program.burials];
  return ({ action, queue, entries, input }) => {
    const actor = input.QueueUrl?.split('/').at(-2) ?? '';
    if (action === 'SendMessage' && queue === DEAD_LETTERS && world.ways.has(actor)) {
      const burial = burials.shift() ?? 'ok';
      if (burial !== 'ok')
        timeline.strike(`${burial} at burial`, actor, `${burial} at the dead-letter queue`);
      return BURIALS[burial]();
    }
    if (action !== 'SendMessageBatch') return undefined;
    const planned = upcoming.get(actor)?.shift();
    const outcomes =
      planned?.kind === 'entries' ? `: ${planned.entries.slice(0, entries.length).join(' ')}` : '';
    const ids = entries.map(({ MessageBody }) => (JSON.parse(MessageBody) as { id: string }).id);
    timeline.add(actor, `calls ${queue} with ${ids.length}, answer ${planned?.kind ?? 'ok'}${outcomes}`, ids);
    if (!planned || planned.kind === 'ok') return undefined;
    if (planned.kind === 'entries') {
      const fates = planned.entries.slice(0, entries.length).filter((fate) => fate !== 'ok');
      for (const fate of fates) timeline.strike(`entry ${fate}`, actor, `queue ${queue}: an entry ${fate}`);
    } else timeline.strike(`answer ${planned.kind}`, actor, `queue ${queue} answers ${planned.kind}`);
    return answerOf(world, actor, planned);
  };
}

const BURIALS = {
  ok: answers.ok,
  error503: () => answers.httpError(503),
  storeThenReset: answers.storeThenReset,
};

const ENTRIES: Record<Exclude<EntryAnswer, 'ok'>, answers.EntryOutcome> = {
  failed: { code: 'InternalError' },
  refused: { code: 'InvalidMessageContents', senderFault: true },
  omitted: 'omitted',
  storedButOmitted: 'storedButOmitted',
  wrongMd5: 'wrongMd5',
};

/** The answer to a call of `actor`. */
export function answerOf(world: World, actor: string, { kind, entries }: PlannedAnswer): answers.Answer {
  const kill = () => slotOf(world, actor)?.sandbox?.kill();
  switch (kind) {
    case 'ok':
      return answers.ok();
    case 'entries':
      return answers.outcomes(
        Object.fromEntries(
          entries.flatMap((answer, n) => (answer === 'ok' ? [] : [[String(n), ENTRIES[answer]]])),
        ),
      );
    case 'emptyAnswer':
      return answers.storeThenRespond('{}');
    case 'error503':
      return answers.httpError(503);
    case 'throttled':
      return answers.throttled();
    case 'stall':
      return answers.stall();
    case 'storeThenStall':
      return answers.storeThenStall();
    case 'reset':
      return answers.reset();
    case 'storeThenReset':
      return answers.storeThenReset();
    case 'killBefore':
      return (exchange) => (kill(), exchange.reset());
    case 'killAfter':
      return async (exchange) => (await exchange.perform(), kill(), exchange.reset());
    case 'freezeAfter':
      return async (exchange) => {
        const body = await exchange.perform();
        world.underway += 1;
        void freeze(world, actor).finally(() => (world.underway -= 1));
        exchange.respond(200, body);
      };
  }
}
