/** Shape of a back-off: seconds, both above zero. */
export interface Backoff {
  readonly baseSeconds: number;
  readonly maxSeconds: number;
}

/**
 * Seconds to wait after the `attempts`-th attempt (1 or more): capped exponential with full jitter above a floor of
 * one base, so that no retry is immediate and a crowd of retries spreads out.
 * (AWS Architecture Blog, "Exponential Backoff And Jitter".)
 *
 * @param random a number in [0, 1)
 */
export function backoffSeconds(
  attempts: number,
  { baseSeconds, maxSeconds }: Backoff,
  random: number,
): number {
  const ceiling = Math.min(maxSeconds, baseSeconds * 2 ** Math.max(0, attempts));
  return baseSeconds + random * Math.max(0, ceiling - baseSeconds);
}
