// Warm processes for relays and consumers, and spare ones for those that are killed.

import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { soon } from '../support/wait.ts';
import type { Order, Role } from './worker.ts';

const WORKER = fileURLToPath(new URL('./worker.ts', import.meta.url));

/** A process that serves one invocation at a time. */
export interface Sandbox {
  readonly pid: number;
  alive(): boolean;
  /** One invocation. Throws what the handler threw, and when the process dies or does not answer in time. */
  invoke(role: Role, event: unknown, leftMs: number): Promise<unknown>;
  /** SIGKILL, also of a frozen one. */
  kill(): void;
  /** SIGSTOP. */
  freeze(): void;
  /** SIGCONT. */
  thaw(): void;
  /** Lets go of the history it served; false when it cannot be used again. */
  rest(): Promise<boolean>;
}

export interface SandboxPool {
  take(): Promise<Sandbox>;
  /** Gives one back, to be used by another history. */
  giveBack(sandbox: Sandbox): Promise<void>;
  /** Processes started so far. */
  started(): number;
  stop(): void;
}

/** An invocation without answer is given up so long after its time, and its process killed: as Lambda does. */
const OVERTIME_MS = 26_000;

/**
 * @param warm processes that are ready when this resolves
 * @param spare processes that are kept ready from then on
 */
export async function startPool(warm: number, spare: number): Promise<SandboxPool> {
  const idle: Promise<Sandbox>[] = [];
  const living = new Set<ChildProcess>();
  let started = 0;
  let stopped = false;
  const killAll = () => living.forEach((child) => child.kill('SIGKILL'));
  process.on('exit', killAll);
  const start = () => {
    started += 1;
    const sandbox = startSandbox(living);
    sandbox.catch(() => undefined);
    return sandbox;
  };
  const refill = () => {
    if (stopped) return;
    while (idle.length < spare) idle.push(start());
  };
  while (idle.length < warm) idle.push(start());
  await Promise.all(idle);
  return {
    take: async () => {
      const sandbox = await (idle.shift() ?? start());
      refill();
      return sandbox;
    },
    giveBack: async (sandbox) => {
      if (await sandbox.rest()) idle.push(Promise.resolve(sandbox));
      else sandbox.kill();
    },
    started: () => started,
    stop: () => {
      stopped = true;
      killAll();
      process.off('exit', killAll);
    },
  };
}

async function startSandbox(living: Set<ChildProcess>): Promise<Sandbox> {
  const env = {
    ...process.env,
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: 'test',
    AWS_SECRET_ACCESS_KEY: 'test',
    // Halves what a fresh process costs (0.8 s of a core to 0.4 s).
    NODE_COMPILE_CACHE: join(tmpdir(), 'outbox-campaign-cache'),
  };
  const child = fork(WORKER, [], {
    env,
    execArgv: [],
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  living.add(child);
  child.on('error', () => undefined);
  child.once('exit', () => living.delete(child));
  await soon(Promise.race([once(child, 'message'), failure(child)]), {
    within: 300_000,
    message: 'a sandbox',
  });
  return describe(child);
}

/** Rejects when the process ends. */
async function failure(child: ChildProcess): Promise<never> {
  await once(child, 'exit');
  throw new SandboxDied();
}

/** The process of an invocation is gone. */
export class SandboxDied extends Error {
  override readonly name = 'SandboxDied';
}

type Answer = { number: number; answer?: unknown; error?: string };
/** Without `number`, which each order gets when it is sent. */
type Unnumbered<T> = T extends unknown ? Omit<T, 'number'> : never;

function describe(child: ChildProcess): Sandbox {
  let orders = 0;
  const waiting = new Map<number, PromiseWithResolvers<unknown>>();
  const alive = () => child.exitCode === null && child.signalCode === null && child.connected;
  child.on('message', ({ number, answer, error }: Answer) => {
    if (error === undefined) waiting.get(number)?.resolve(answer);
    else waiting.get(number)?.reject(new Error(error));
  });
  child.once('exit', () => waiting.forEach(({ reject }) => reject(new SandboxDied())));
  const ask = async (order: Unnumbered<Order>, within: number): Promise<unknown> => {
    if (!alive()) throw new SandboxDied();
    const number = (orders += 1);
    const reply = Promise.withResolvers<unknown>();
    waiting.set(number, reply);
    child.send({ ...order, number });
    try {
      return await soon(reply.promise, { within, message: 'the answer of a sandbox' });
    } finally {
      waiting.delete(number);
    }
  };
  const kill = () => void child.kill('SIGKILL');
  return {
    pid: child.pid ?? 0,
    alive,
    invoke: (role, event, leftMs) => ask({ role, event, leftMs }, leftMs + OVERTIME_MS),
    kill,
    freeze: () => void child.kill('SIGSTOP'),
    thaw: () => void child.kill('SIGCONT'),
    rest: () =>
      ask({ rest: true }, 5_000).then(
        () => true,
        () => false,
      ),
  };
}
