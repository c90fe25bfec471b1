import type { ClaimedEvent } from './claim.ts';
import type { Outcome, Settlement } from './outcome.ts';

/** From this claim on, an event that never got an answer may be what kills its relay, and is sent alone. */
const SUSPECT_FROM_ATTEMPT = 3;

/** Whether an event may be what kills its relay: claimed again and again, and no claim of it was ever answered. */
export const isSuspect = ({ attempts, lastError }: Pick<ClaimedEvent, 'attempts' | 'lastError'>) =>
  attempts >= SUSPECT_FROM_ATTEMPT && lastError === null;

/**
 * Says in which order a claim's events are sent, so that one that kills its relay takes few with it: first those
 * that are new or have had an answer, then those that once had none, at last one suspect, alone. The other suspects
 * go back untried, and what was claimed too often is set aside to be parked.
 *
 * @param silent destinations that left a suspect without an answer in this run: their suspects step back, so that
 *   a queue that never answers does not keep the run from everything else
 */
export function plan(
  events: readonly ClaimedEvent[],
  maxAttempts: number,
  silent: ReadonlySet<string> = new Set(),
): { aside: Settlement[]; waves: ClaimedEvent[][] } {
  const trust = Map.groupBy(events, ({ attempts, lastError, destination }) => {
    if (attempts > maxAttempts) return 'exhausted';
    if (lastError !== null || attempts === 1) return 'trusted';
    if (!isSuspect({ attempts, lastError })) return 'doubtful';
    return silent.has(destination) ? 'deferred' : 'suspect';
  });
  const [suspect, ...otherSuspects] = trust.get('suspect') ?? [];
  const waves = [trust.get('trusted') ?? [], trust.get('doubtful') ?? [], suspect ? [suspect] : []];
  return {
    aside: [
      ...as(trust.get('exhausted'), { kind: 'exhausted' }),
      ...as(trust.get('deferred'), { kind: 'deferred' }),
      ...as(otherSuspects, { kind: 'unsent' }),
    ],
    waves: waves.filter((wave) => wave.length > 0),
  };
}

const as = (group: readonly ClaimedEvent[] | undefined, outcome: Outcome): Settlement[] =>
  (group ?? []).map((event) => ({ event, outcome }));
