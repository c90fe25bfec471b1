// One function: its unzipped artifact and its sandboxes.

import { unzipSync } from 'fflate';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import pLimit from 'p-limit';
import { InvocationError, startSandbox, type Sandbox, type SandboxSpec } from './sandbox.ts';

/** A deployed function, as the rest of the stack sees it. */
export interface LocalFunction {
  /** Short name, such as `relay`. */
  name: string;
  arn: string;
  /** The artifact its code comes from. */
  zip: string;
  /** Invokes it in a warm sandbox if one is idle, else in a new one. Rejects with InvocationError. */
  invoke(event: unknown): Promise<unknown>;
  /** The sandboxes that are in the middle of an invocation now. */
  busy(): Sandbox[];
  /** How many invocations have been in progress at once, at most. */
  mostAtOnce(): number;
  /** Takes the zip again: invocations from now on run the new code, those in progress end with the old. */
  reload(): Promise<void>;
  /** Kills every sandbox and removes the unzipped files. */
  stop(): Promise<void>;
}

/** What `createFunction` needs: a sandbox's specification, and where its code comes from. */
export interface FunctionSpec extends Omit<SandboxSpec, 'taskRoot'> {
  zip: string;
  /** Invocations at once; more wait for one another. */
  concurrency: number;
  /** Called when its module threw while it was loaded, as it will the next time; the invocation is rejected all the same. */
  onInitFailed?: (error: InvocationError) => void;
}

interface State {
  spec: FunctionSpec;
  /** Where the code of now is; sandboxes that run from elsewhere are not used again. */
  taskRoot: string;
  idle: Sandbox[];
  busy: Set<Sandbox>;
  starting: Set<Promise<Sandbox>>;
  folders: string[];
  mostAtOnce: number;
  stopped: boolean;
}

/** Makes a function from its zip. No sandbox is started before the first invocation. */
export async function createFunction(spec: FunctionSpec): Promise<LocalFunction> {
  const limit = pLimit(spec.concurrency);
  const taskRoot = await unzip(spec);
  const state: State = {
    spec,
    taskRoot,
    idle: [],
    busy: new Set(),
    starting: new Set(),
    folders: [taskRoot],
    mostAtOnce: 0,
    stopped: false,
  };
  return {
    name: spec.name,
    arn: spec.arn,
    zip: spec.zip,
    invoke: (event) => limit(run, state, event),
    busy: () => [...state.busy],
    mostAtOnce: () => state.mostAtOnce,
    reload: () => reload(state),
    stop: () => stop(state),
  };
}

async function run(state: State, event: unknown): Promise<unknown> {
  const { taskRoot } = state;
  const sandbox = takeIdle(state) ?? (await start(state, taskRoot));
  state.busy.add(sandbox);
  state.mostAtOnce = Math.max(state.mostAtOnce, state.busy.size);
  try {
    return await sandbox.invoke(event);
  } finally {
    state.busy.delete(sandbox);
    if (taskRoot !== state.taskRoot || state.stopped) await sandbox.kill();
    else if (sandbox.isAlive()) state.idle.push(sandbox);
  }
}

function takeIdle(state: State): Sandbox | undefined {
  for (;;) {
    const sandbox = state.idle.pop();
    if (sandbox === undefined || sandbox.isAlive()) return sandbox;
  }
}

async function start(state: State, taskRoot: string): Promise<Sandbox> {
  if (state.stopped) throw new Error(`${state.spec.name}: the stack is stopping`);
  const starting = startSandbox({ ...state.spec, taskRoot });
  state.starting.add(starting);
  try {
    return await starting;
  } catch (error) {
    if (error instanceof InvocationError && error.fault) state.spec.onInitFailed?.(error);
    throw error;
  } finally {
    state.starting.delete(starting);
  }
}

async function reload(state: State): Promise<void> {
  state.taskRoot = await unzip(state.spec);
  state.folders.push(state.taskRoot);
  await Promise.all(state.idle.splice(0).map((sandbox) => sandbox.kill()));
}

async function stop(state: State): Promise<void> {
  state.stopped = true;
  const started = await Promise.allSettled(state.starting);
  const sandboxes = [
    ...started.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : [])),
    ...state.busy,
    ...state.idle,
  ];
  await Promise.all(sandboxes.map((sandbox) => sandbox.kill()));
  await Promise.all(state.folders.map((folder) => rm(folder, { recursive: true, force: true })));
}

async function unzip({ name, zip }: FunctionSpec): Promise<string> {
  const taskRoot = await mkdtemp(join(tmpdir(), `outbox-${name}-`));
  for (const [path, content] of Object.entries(unzipSync(await readFile(zip)))) {
    const file = join(taskRoot, path);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, content);
  }
  return taskRoot;
}
