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
