// When is it over?

import { setTimeout as sleep } from 'node:timers/promises';
import { countRows, total } from './counts.ts';
import { messagesUnderway } from './destinations.ts';
import type { Run } from './run.ts';

/** A killed relay's lease, the tick after it, and the consumer's longest delays. */
const MOST_MS = 60_000;
const LOOK_EVERY_MS = 200;
/** Between a delivery and the copy made of it the queue may look empty. */
const LOOKS_ALIKE = 3;

/** Resolves when nothing is left to do: no pending event, no message on its way; or when that has taken too long. */
export async function settled({ stack, pool, copies, kill, signal }: Run): Promise<void> {
  const until = performance.now() + MOST_MS;
  await kill;
  for (let quiet = 0; quiet < LOOKS_ALIKE && performance.now() < until; await sleep(LOOK_EVERY_MS)) {
    signal.throwIfAborted();
    await copies.sent();
    const [rows, underway] = await Promise.all([countRows(pool), messagesUnderway(stack)]);
    quiet = total(rows, 'pending') + underway === 0 ? quiet + 1 : 0;
  }
}
