// What a test starts is taken down when it ends, whether it passed or not; `hooks.ts` ties this to Vitest.

import { AsyncLocalStorage } from 'node:async_hooks';

type Undo = () => unknown;

const forFile: Undo[] = [];
const forTest: Undo[] = [];
let started: Undo[] = forFile;
/** What was started inside an `inScope`; scopes may run side by side. */
const scopes = new AsyncLocalStorage<Undo[]>();

/**
 * Runs `undo` when the running test ends or, when called from `beforeAll` or the top of a file, when the file ends:
 * last started, first undone. Outside Vitest (a script) it runs at the end of `inScope`; without one, never.
 * Tests of one file run one after another; it does not tell `test.concurrent` tests apart.
 */
export function afterwards(undo: Undo): void {
  (scopes.getStore() ?? started).push(undo);
}

/** Runs `body`, and then undoes what it started, whether it failed or not. For scripts, and for parts of one test. */
export async function inScope<T>(body: () => Promise<T>): Promise<T> {
  const stack: Undo[] = [];
  try {
    return await scopes.run(stack, body);
  } finally {
    await undoAll(stack);
  }
}

/** A test begins: from here on what is started belongs to it. */
export function beginTest(): void {
  started = forTest;
}

/** A test has ended: undoes what it started. Throws the failures, after having tried everything. */
export async function endTest(): Promise<void> {
  started = forFile;
  await undoAll(forTest);
}

/** A file has ended: undoes what its `beforeAll` hooks and its top level started. */
export async function endFile(): Promise<void> {
  await undoAll(forFile);
}

async function undoAll(stack: Undo[]): Promise<void> {
  const failures: unknown[] = [];
  for (let undo = stack.pop(); undo !== undefined; undo = stack.pop()) {
    try {
      await undo();
    } catch (failure) {
      failures.push(failure);
    }
  }
  if (failures.length > 0)
    throw new AggregateError(failures, `Cleaning up after the test: ${failures.join('; ')}`);
}
