// What one history happens in: its database, its queues, and the ways by which everybody reaches them.

import { Pool, type QueryResultRow } from 'pg';
import type { PrismaClient } from '../../prisma/client/client.ts';
import { afterwards } from '../support/cleanup.ts';
import { createPrisma } from '../support/prisma.ts';
import { startScriptedSqs, type ScriptedSqs } from '../support/scripted-sqs.ts';
import { runAsAdmin, urlOf, type TestServer } from '../support/server.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/wait.ts';
import { TABLES } from './effects.ts';
import { DEAD_LETTERS, FIFO, QUEUES, STANDARD, type DestinationName, type Program } from './program.ts';
import { consumerRole, relayRole, VISIBILITY_SECONDS } from './roles.ts';
import { SandboxDied, type Sandbox, type SandboxPool } from './sandbox.ts';
import { startTimeline, type Timeline } from './timeline.ts';
import type { Role } from './worker.ts';

/** Marks the sessions of those who look on; no fault is meant for them. */
export const ONLOOKER = 'campaign';

/** Of an invocation: while faults strike, afterwards, and where nothing may ever run out. */
const INVOCATION_MS = 4_000;
const AMPLE_INVOCATION_MS = 12_000;
const CALM_INVOCATION_MS = 600_000;

const invocationMs = ({ program, faulty }: World): number => {
  if (program.calm) return CALM_INVOCATION_MS;
  return faulty ? INVOCATION_MS : AMPLE_INVOCATION_MS;
};

/** Far more than a server needs to start on a busy machine. */
const AWAY_MS = 120_000;

/** What all histories of a run share. */
export interface Ground {
  readonly server: Pick<TestServer, 'adminUrl' | 'prefix' | 'template'>;
  readonly pool: SandboxPool;
}

/** One relay or consumer: whatever process runs it at the moment. */
export interface Slot {
  readonly name: string;
  /** With its short lease while faults strike, and with ample time afterwards. */
  readonly role: (faulty: boolean) => Role;
  sandbox: Sandbox | undefined;
}

export interface World {
  readonly program: Program;
  readonly timeline: Timeline;
  readonly sqs: ScriptedSqs;
  /** As the onlooker; the server's address stays when it is started again. */
  readonly url: string;
  /** Looks on; no fault is meant for it. Where disasters strike, it waits for the server to come back. */
  readonly sql: <T extends QueryResultRow>(text: string, values?: unknown[]) => Promise<T[]>;
  /** For what a person or the schedule does; no fault is meant for it. */
  readonly prisma: PrismaClient;
  readonly relays: readonly Slot[];
  readonly consumers: Readonly<Record<DestinationName, readonly Slot[]>>;
  /** By actor: `producer`, `relay-0`, `stock-1`, … */
  readonly ways: ReadonlyMap<string, TcpProxy>;
  readonly pool: SandboxPool;
  /** Faults strike only while this is true. */
  faulty: boolean;
  /** Faults that have begun and are not over, such as a freeze, and invocations that began among them. */
  underway: number;
  /** Nobody begins anything any more. */
  over: boolean;
}

/** Makes the template that every history's database is cloned from. */
export async function prepareGround(server: Ground['server']): Promise<void> {
  const name = `${server.prefix}_campaign`;
  await runAsAdmin(server.adminUrl, [`CREATE DATABASE ${name} TEMPLATE ${server.template}`]);
  await runAsAdmin(urlOf(server.adminUrl, name), [TABLES]);
}

let histories = 0;

const names = (role: string, count: number) => Array.from({ length: count }, (_, n) => `${role}-${n}`);

/** Everything that is started here ends with the scope of the history. */
export async function createWorld({ server, pool }: Ground, program: Program): Promise<World> {
  const name = `${server.prefix}_h${(histories += 1)}`;
  await runAsAdmin(server.adminUrl, [`CREATE DATABASE ${name} TEMPLATE ${server.prefix}_campaign`]);
  afterwards(() => runAsAdmin(server.adminUrl, [`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`]));
  const url = urlOf(server.adminUrl, name);
  const sqs = await startQueues();
  const { relays, consumers } = program.settings;
  const actors = [names('relay', relays), names(STANDARD, consumers), names(FIFO, consumers)] as const;
  const ways = new Map<string, TcpProxy>();
  for (const actor of ['producer', ...actors.flat()])
    ways.set(actor, await startTcpProxy(asActor(url, actor)));
  const slot =
    (roleOf: (actor: string, way: string, faulty: boolean) => Role) =>
    (actor: string): Slot => ({
      name: actor,
      role: (faulty) => roleOf(actor, ways.get(actor)?.url ?? '', faulty),
      sandbox: undefined,
    });
  const consumerOf = (queue: DestinationName) =>
    slot((actor, way) => consumerRole(program, sqs, actor, queue, way));
  const world: World = {
    program,
    timeline: startTimeline(),
    sqs,
    url: asActor(url, ONLOOKER),
    sql: onlookerOf(asActor(url, ONLOOKER), program),
    prisma: createPrisma(asActor(url, ONLOOKER), { max: 2 }),
    relays: actors[0].map(slot((...of) => relayRole(program, sqs, ...of))),
    consumers: {
      [STANDARD]: actors[1].map(consumerOf(STANDARD)),
      [FIFO]: actors[2].map(consumerOf(FIFO)),
    },
    ways,
    pool,
    faulty: true,
    underway: 0,
    over: false,
  };
  afterwards(() => release(world));
  return world;
}

const startQueues = () => {
  const options = { visibilityTimeoutSeconds: VISIBILITY_SECONDS };
  const queues = { [QUEUES[STANDARD]]: options, [QUEUES[FIFO]]: options, [DEAD_LETTERS]: options };
  return startScriptedSqs({ queues, record: false });
};

/** Names the sessions, so that the server can tell whose they are. */
function asActor(url: string, actor: string): string {
  const named = new URL(url);
  named.searchParams.set('application_name', actor);
  return named.href;
}

function onlookerOf(url: string, program: Program): World['sql'] {
  // Its connections stay: a crowd leaves no room for new ones.
  const pool = new Pool({ connectionString: url, max: 2, idleTimeoutMillis: 0 });
  pool.on('error', () => undefined);
  pool.on('connect', (client) => void client.on('error', () => undefined));
  afterwards(() => pool.end());
  return <T extends QueryResultRow>(text: string, values: unknown[] = []) =>
    throughDisasters(program, async () => (await pool.query<T>(text, values)).rows);
}

/** Tries again while the server may be away, where the program has it go away. */
export async function throughDisasters<T>(
  { disasters }: Pick<Program, 'disasters'>,
  work: () => Promise<T>,
): Promise<T> {
  if (disasters.length === 0) return work();
  const { done } = await until(async () => ({ done: await work() }), {
    within: AWAY_MS,
    message: 'the server comes back',
  });
  return done;
}

/** One invocation in the slot's process, or in a fresh one when it has none. Throws what the invocation throws. */
export async function invoke(world: World, slot: Slot, event: unknown): Promise<unknown> {
  const sandbox = (slot.sandbox ??= await world.pool.take());
  // What began under faults may still do anything: a relay that thaws sends what it was about to send.
  const faulty = Number(world.faulty);
  world.underway += faulty;
  try {
    return await sandbox.invoke(slot.role(world.faulty), event, invocationMs(world));
  } catch (error) {
    const late = error instanceof Error && error.name === 'DeadlineError';
    if (late) world.timeline.strike('timed out', slot.name, 'its invocation never ended, and it is killed');
    if (late || error instanceof SandboxDied || !sandbox.alive()) {
      sandbox.kill();
      slot.sandbox = undefined;
    }
    throw error;
  } finally {
    world.underway -= faulty;
  }
}

export const slotsOf = ({ relays, consumers }: World): Slot[] => [
  ...relays,
  ...Object.values(consumers).flat(),
];

async function release(world: World): Promise<void> {
  const sandboxes = slotsOf(world).flatMap(({ sandbox }) => sandbox ?? []);
  await Promise.all(sandboxes.map((sandbox) => world.pool.giveBack(sandbox)));
}

/** Looked up without a call: an empty queue is asked often. */
export function hasVisible({ sqs }: World, queue: string): boolean {
  const now = Date.now();
  return sqs.stored(queue).some(({ deleted, visibleAt }) => !deleted && visibleAt <= now);
}
