import { setTimeout as sleep } from 'node:timers/promises';

const POLL_EVERY_MS = 10;

/** `until` gave up. The message says what was waited for, and `cause` is what the condition last threw. */
export class DeadlineError extends Error {
  override readonly name = 'DeadlineError';
  constructor(message: string, withinMs: number, cause: unknown) {
    super(`${message}: not within ${withinMs} ms${cause instanceof Error ? ` (${cause.message})` : ''}`, {
      cause,
    });
  }
}

/**
 * Asks `condition` every 10 ms until it answers something truthy, and returns that. An exception counts as "not
 * yet", so `() => expect(…)`-like conditions work when they return true at the end.
 *
 * @param within milliseconds until it throws DeadlineError, 5,000 by default. A condition that itself never
 *   answers is given up at the deadline too.
 * @param message what is waited for, such as "the row is published".
 */
export async function until<T>(
  condition: () => T | Promise<T>,
  { within = 5_000, message = 'condition' }: { within?: number; message?: string } = {},
): Promise<Exclude<T, undefined | null | false | 0 | ''>> {
  const deadline = performance.now() + within;
  let cause: unknown;
  for (;;) {
    const leftMs = deadline - performance.now();
    if (leftMs <= 0) throw new DeadlineError(message, within, cause);
    try {
      const answer = await before(leftMs, condition);
      if (answer) return answer as Exclude<T, undefined | null | false | 0 | ''>;
      cause = undefined;
    } catch (error) {
      cause = error;
    }
    await sleep(Math.min(POLL_EVERY_MS, leftMs));
  }
}

/**
 * Waits for a promise, but not for ever: DeadlineError after `within` milliseconds (5,000 by default).
 * The promise's own rejection passes through.
 */
export async function soon<T>(
  promise: Promise<T>,
  { within = 5_000, message = 'promise' }: { within?: number; message?: string } = {},
): Promise<T> {
  const timer = new AbortController();
  const late = sleep(within, undefined, { signal: timer.signal }).then(
    () => Promise.reject(new DeadlineError(message, within, undefined)),
    () => new Promise<never>(() => {}),
  );
  try {
    return await Promise.race([promise, late]);
  } finally {
    timer.abort();
  }
}

function before<T>(leftMs: number, condition: () => T | Promise<T>): Promise<T> {
  return soon(Promise.resolve().then(condition), {
    within: leftMs,
    message: 'the condition itself did not answer',
  });
}
