import { performance } from 'node:perf_hooks';

/** Milliseconds left until some end; negative once it has passed. Counted on the monotonic clock, never on wall time. */
export type TimeLeft = () => number;

/** Counts down from `ms`. */
export function countdown(ms: number): TimeLeft {
  const end = performance.now() + ms;
  return () => end - performance.now();
}

/** Time left of the Lambda invocation; `marginMs` is kept for what must still happen after the work. */
export function invocationTimeLeft(
  context: { getRemainingTimeInMillis(): number },
  marginMs: number,
): TimeLeft {
  return countdown(context.getRemainingTimeInMillis() - marginMs);
}

/**
 * Waits for `work`, but not beyond the end of `timeLeft`.
 *
 * @throws Error when the time is over first; `work` goes on, and nobody listens to it any more
 */
export async function inTime<T>(work: Promise<T>, timeLeft: TimeLeft): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new Error('OutOfTime: not done when the time was over')),
      Math.max(0, timeLeft()),
    );
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** A queue that does not answer a consumer is given up after this, or sooner when the time is short. */
export const CALL_TIMEOUT_MS = 5_000;

/** Aborts after `ms`, at once when that is not above zero. */
export const abortAfter = (ms: number): AbortSignal => AbortSignal.timeout(Math.max(0, Math.trunc(ms)));
