import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterwards } from './cleanup.ts';
import { until } from './wait.ts';

const shiftClock = fileURLToPath(new URL('./shift-clock.ts', import.meta.url));

/** How a process ended: by its own exit code or by a signal, the other is null. */
export interface Exit {
  code: number | null;
  signal: NodeJS.Signals | null;
}

/** A Node process running a TypeScript file. */
export interface TestProcess {
  pid: number;
  /** What it sent with `process.send`, in order. */
  messages: unknown[];
  /** stdout and stderr so far, as they came. */
  output(): string;
  /** Reaches its `process.on('message')`. Inside it may be bigint, Date, Map, … */
  send(message: object): void;
  /**
   * The first message, sent already or still to come, that `is` accepts.
   * Throws, with the output, when the process ends before; DeadlineError after `within` milliseconds (10,000).
   */
  message<T>(is: (message: unknown) => message is T, within?: number): Promise<T>;
  message(is: (message: unknown) => boolean, within?: number): Promise<unknown>;
  /** SIGKILL by default, which ends a frozen process too. Resolves when it is gone. */
  kill(signal?: NodeJS.Signals): Promise<Exit>;
  /** SIGSTOP: it stands still like a frozen Lambda, its connections stay open. */
  freeze(): void;
  /** SIGCONT. */
  thaw(): void;
  exited: Promise<Exit>;
}

const living = new Set<ChildProcess>();
// Vitest ends a worker whose test hangs without running hooks.
process.on('exit', () => living.forEach((child) => child.kill('SIGKILL')));

/**
 * Runs a TypeScript file in a Node process of its own, on this process's Node. Killed when the test ends.
 * @param file absolute path, or a file URL such as `new URL('./programs/relay.ts', import.meta.url)`.
 * @param env added to this process's environment: TZ, DATABASE_URL, …; undefined takes a variable away.
 * @param clockAheadMs its `Date` is this far ahead of the machine's (behind, when negative).
 */
export function startProcess(
  file: string | URL,
  options: { args?: string[]; env?: Record<string, string | undefined>; clockAheadMs?: number } = {},
): TestProcess {
  const child = launch(file, options);
  const messages: unknown[] = [];
  let output = '';
  child.on('message', (message) => messages.push(message));
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (text: string) => (output += text));
  // 'close', not 'exit': by then all output has been read.
  const exited = once(child, 'close').then(([code, signal]): Exit => ({ code, signal }));
  const ended = (): boolean => child.exitCode !== null || child.signalCode !== null;
  const kill = (signal: NodeJS.Signals = 'SIGKILL'): Promise<Exit> => {
    child.kill(signal);
    return exited;
  };
  afterwards(() => kill());
  return {
    pid: child.pid ?? 0,
    messages,
    output: () => output,
    send: (message) => child.send(message),
    message: (is: (message: unknown) => boolean, within = 10_000) =>
      findMessage({ messages, is, within, ended, output: () => output }),
    kill,
    freeze: () => child.kill('SIGSTOP'),
    thaw: () => child.kill('SIGCONT'),
    exited,
  };
}

function launch(
  file: string | URL,
  { args = [], env = {}, clockAheadMs }: NonNullable<Parameters<typeof startProcess>[1]>,
): ChildProcess {
  const clock = clockAheadMs === undefined ? {} : { TEST_CLOCK_AHEAD_MS: String(clockAheadMs) };
  const child = fork(file, args, {
    env: { ...process.env, ...clock, ...env },
    execArgv: clockAheadMs === undefined ? [] : ['--import', shiftClock],
    serialization: 'advanced',
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  living.add(child);
  child.once('exit', () => living.delete(child));
  return child;
}

interface Search {
  messages: unknown[];
  is: (message: unknown) => boolean;
  within: number;
  ended: () => boolean;
  output: () => string;
}

async function findMessage<T>({ messages, is, within, ended, output }: Search): Promise<T> {
  const found = await until(
    () => {
      // Read before the search: a message may come with the end.
      const over = ended();
      const index = messages.findIndex(is);
      return index >= 0 ? { message: messages[index] } : over && { over };
    },
    { within, message: 'a message from the process' },
  );
  if ('over' in found) throw new Error(`The process ended without the message. Its output:\n${output()}`);
  return found.message as T;
}
