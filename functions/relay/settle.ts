import { backoffSeconds } from '../shared/backoff.ts';
import { acknowledge, type Acknowledgement } from './acknowledge.ts';
import type { Claim } from './claim.ts';
import type { TickCounts } from './counts.ts';
import type { Settlement } from './outcome.ts';
import { BACKLOG_LATE } from './operations.ts';
import { park, type Parking } from './park.ts';
import { release, type Release } from './release.ts';
import type { RelayParts } from './parts.ts';

/**
 * Writes what became of claimed events: one fenced statement per verb.
 * Rows that no longer carry our token are counted as fenced out: another relay holds or has settled them.
 */
export async function settle(
  { store, config, random }: RelayParts,
  { token }: Claim,
  settlements: readonly Settlement[],
  counts: TickCounts,
): Promise<void> {
  const work: Work = { acknowledge: [], acknowledgeFact: [], release: [], park: [], unanswered: 0 };
  const backoff = { baseSeconds: config.backoffBaseSeconds, maxSeconds: config.backoffMaxSeconds };
  for (const settlement of settlements) {
    assign(work, settlement, config.maxAttempts, () =>
      backoffSeconds(settlement.event.releases + 1, backoff, random()),
    );
  }
  const published = work.acknowledge.length + work.acknowledgeFact.length;
  // Counted before it is written: an acknowledge that fails does not unsend them.
  counts.published += published;
  counts.unanswered += work.unanswered;
  const acknowledged =
    (await acknowledge(store, token, work.acknowledge, config)) +
    (await acknowledge(store, token, work.acknowledgeFact, { keepPublished: true }));
  counts.acknowledged += acknowledged;
  counts.fencedOut += published - acknowledged;
  const released = await release(store, token, work.release);
  counts.released += released;
  counts.fencedOut += work.release.length - released;
  const parked = await park(store, token, work.park, config.operationsDestination);
  counts.parked += parked;
  counts.fencedOut += work.park.length - parked;
}

interface Work {
  readonly acknowledge: Acknowledgement[];
  /** Kept in any case: while the row is there, the same fact is not told again. */
  readonly acknowledgeFact: Acknowledgement[];
  readonly release: Release[];
  readonly park: Parking[];
  unanswered: number;
}

/** Puts an event under exactly one verb; an unanswered one keeps its lease, which runs out by itself. */
function assign(
  work: Work,
  { event: { sequence, attempts, lastError, type }, outcome }: Settlement,
  maxAttempts: number,
  backoff: () => number,
): void {
  switch (outcome.kind) {
    case 'published':
      (type === BACKLOG_LATE ? work.acknowledgeFact : work.acknowledge).push({
        sequence,
        messageId: outcome.messageId,
      });
      return;
    case 'refused':
      work.park.push({ sequence, reason: outcome.reason, attemptBack: false });
      return;
    case 'exhausted': {
      const last = lastError === null ? 'no answer ever came back' : `last answer: ${lastError}`;
      work.park.push({ sequence, reason: `AttemptsExhausted: ${maxAttempts}; ${last}`, attemptBack: true });
      return;
    }
    case 'unavailable':
      if (outcome.whole || attempts < maxAttempts) {
        const { reason: error, whole: attemptBack } = outcome;
        work.release.push({ sequence, delaySeconds: backoff(), attemptBack, error });
      } else {
        const reason = `AttemptsExhausted: ${maxAttempts}; last answer: ${outcome.reason}`;
        work.park.push({ sequence, reason, attemptBack: false });
      }
      return;
    case 'deferred':
      work.release.push({ sequence, delaySeconds: backoff(), attemptBack: true, error: null });
      return;
    case 'unsent':
      work.release.push({ sequence, delaySeconds: 0, attemptBack: true, error: null });
      return;
    case 'unanswered':
      work.unanswered += 1;
  }
}
