import { isThrottling } from './sender.ts';

/**
 * Why events were given back: the queue's pace, no such destination in the configuration, anything else that stood in
 * the way, a suspect stepping back, or no time. A closed set for metrics; `last_error` has what was answered.
 */
export type ReleaseReason = 'Throttled' | 'UnknownDestination' | 'Unavailable' | 'Deferred' | 'Unsent';

/** Why events were parked. A closed set for metrics; `park_reason` has the rest. */
export type ParkReason = 'TooLarge' | 'Refused' | 'AttemptsExhausted';

/** The reason in the account of what stood in the way. */
export function releaseReason(account: string): ReleaseReason {
  if (isThrottling(account)) return 'Throttled';
  return account.startsWith('UnknownDestination:') ? 'UnknownDestination' : 'Unavailable';
}

/** The reason in the account of a refusal. */
export const parkReason = (account: string): ParkReason =>
  account.startsWith('TooLarge:') ? 'TooLarge' : 'Refused';

/** Adds to `tally` the reasons of those rows that did change. */
export function tally<R extends string>(
  into: Partial<Record<R, number>>,
  rows: readonly { readonly sequence: bigint; readonly code: R }[],
  changed: readonly bigint[],
): void {
  const did = new Set(changed);
  for (const { code } of rows.filter(({ sequence }) => did.has(sequence))) into[code] = (into[code] ?? 0) + 1;
}
