// One sandbox: a process of its own that runs one function, one invocation at a time.

import { fork, type ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { Answer, FunctionFault, Invocation } from './runtime.ts';

/** What a sandbox runs, taken from the template. */
export interface SandboxSpec {
  /** Short name, such as `relay`. */
  name: string;
  arn: string;
  /** `functions/relay/handler.handler` */
  handler: string;
  /** Folder with the unzipped function. */
  taskRoot: string;
  /** The sandbox's whole environment. */
  environment: Record<string, string>;
  timeoutSeconds: number;
  onLine: (line: LogLine) => void;
}

/** One line that a function wrote. */
export interface LogLine {
  function: string;
  pid: number;
  stream: 'stdout' | 'stderr';
  text: string;
  /** The line's fields, when it is a JSON object. */
  json?: Record<string, unknown>;
}

/** Longer than Lambda's 10 s: many sandboxes may start at once on few cores. */
const INIT_SECONDS = 30;

/** A running sandbox. */
export interface Sandbox {
  pid: number;
  /** Resolves to what the handler returned; rejects with InvocationError. */
  invoke(event: unknown): Promise<unknown>;
  /** SIGKILL; resolves when the process is gone. */
  kill(): Promise<void>;
  isAlive(): boolean;
}

/** An invocation that brought no result: the handler threw, timed out, or its process ended. */
export class InvocationError extends Error {
  override readonly name = 'InvocationError';
  readonly fault: FunctionFault | undefined;
  constructor(functionName: string, reason: string, fault?: FunctionFault) {
    super(`${functionName}: ${reason}${fault ? ` ${fault.errorType}: ${fault.errorMessage}` : ''}`);
    this.fault = fault;
  }
}

/**
 * Starts a process and loads the handler in it. Rejects with InvocationError when the handler does not load,
 * with the error that its module threw.
 */
export async function startSandbox(spec: SandboxSpec): Promise<Sandbox> {
  const child = fork(new URL('./runtime.ts', import.meta.url), {
    cwd: spec.taskRoot,
    env: { ...spec.environment, _HANDLER: spec.handler, LAMBDA_TASK_ROOT: spec.taskRoot },
    execArgv: [],
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    // A group of its own, so that Ctrl-C reaches only us and we end it in our own time.
    detached: true,
  });
  // `close`, not `exit`: by then its last lines have been read.
  const closed = once(child, 'close');
  readLines(child, spec);
  const first = await nextAnswer(child, spec, INIT_SECONDS);
  if (first.kind === 'initFailed') {
    child.kill('SIGKILL');
    throw new InvocationError(spec.name, 'could not start.', first.error);
  }
  return {
    pid: child.pid ?? 0,
    invoke: (event) => invoke(child, spec, event),
    isAlive: () => child.exitCode === null && child.signalCode === null,
    kill: async () => {
      child.kill('SIGKILL');
      await closed;
    },
  };
}

async function invoke(child: ChildProcess, spec: SandboxSpec, event: unknown): Promise<unknown> {
  const invocation: Invocation = {
    requestId: randomUUID(),
    event,
    deadlineMs: Date.now() + spec.timeoutSeconds * 1000,
    functionArn: spec.arn,
  };
  const answered = nextAnswer(child, spec, spec.timeoutSeconds);
  // A process that has just ended answers nothing: `exit` tells, so the failed send need not.
  child.send(invocation, () => {});
  const answer = await answered;
  if (answer.kind === 'returned') return answer.value;
  throw new InvocationError(spec.name, 'threw', answer.kind === 'threw' ? answer.error : undefined);
}

/** The sandbox's next message. Rejects when it ends first, or is silent for too long: then it is killed. */
function nextAnswer(child: ChildProcess, spec: SandboxSpec, seconds: number): Promise<Answer> {
  return new Promise((resolve, reject) => {
    let timedOut = false;
    const timer = setTimeout(() => {
      timedOut = true;
      child.kill('SIGKILL');
    }, seconds * 1000);
    const onMessage = (answer: Answer) => {
      clearTimeout(timer);
      child.off('exit', onExit);
      resolve(answer);
    };
    const onExit = (code: number | null, signal: NodeJS.Signals | null) => {
      clearTimeout(timer);
      child.off('message', onMessage);
      const reason = timedOut
        ? `timed out after ${seconds} s`
        : `process ended (${signal ?? `code ${code}`})`;
      reject(new InvocationError(spec.name, reason));
    };
    child.once('message', onMessage);
    child.once('exit', onExit);
  });
}

function readLines(child: ChildProcess, spec: SandboxSpec): void {
  for (const stream of ['stdout', 'stderr'] as const) {
    let rest = '';
    child[stream]?.setEncoding('utf8').on('data', (chunk: string) => {
      // Not node:readline, which also breaks lines at U+2028, and JSON text may hold that.
      const lines = (rest + chunk).split('\n');
      rest = lines.pop() ?? '';
      for (const text of lines) {
        const json = fieldsOf(text);
        spec.onLine({ function: spec.name, pid: child.pid ?? 0, stream, text, ...(json && { json }) });
      }
    });
  }
}

function fieldsOf(text: string): Record<string, unknown> | undefined {
  if (!text.startsWith('{')) return undefined;
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return undefined;
  }
}
