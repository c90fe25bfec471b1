import { backoffSeconds } from '../shared/backoff.ts';
import { acknowledge, type Acknowledgement } from './acknowledge.ts';
import type { Claim } from './claim.ts';
import type { TickCounts } from './counts.ts';
import type { Settlement } from './outcome.ts';
import { BACKLOG_LATE } from './operations.ts';
import { park, type Parking } from './park.ts';
import { release, type Release } from './release.ts';
import type { RelayParts } from './parts.ts';
import { parkReason, releaseReason, tally, type ParkReason, type ReleaseReason } from './reasons.ts';

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
  counts.released += released.length;
  counts.fencedOut += work.release.length - released.length;
  tally(counts.releasedBy, work.release, released);
  const parked = await park(store, token, work.park, config.operationsDestination);
  counts.parked += parked.length;
  counts.fencedOut += work.park.length - parked.length;
  tally(counts.parkedBy, work.park, parked);
}

interface Work {
  readonly acknowledge: Acknowledgement[];
  /** Kept in any case: while the row is there, the same fact is not told again. */
  readonly acknowledgeFact: Acknowledgement[];
  readonly release: (Release & { readonly code: ReleaseReason })[];
  readonly park: (Parking & { readonly code: ParkReason })[];
  unanswered: number;
}

/** Puts an event under exactly one verb; an unanswered one keeps its lease, which runs out by itself. */
function assign(
  work: Work,
  { event: { sequence, attempts, lastError, type }, outcome }: Settlement,
  maxAttempts: number,
  backoff: () => number,
): void {
  const toPark = (reason: string, attemptsBack: number, code: ParkReason) =>
    work.park.push({ sequence, reason, attemptsBack, code });
  const toRelease = (delaySeconds: number, attemptBack: boolean, error: string | null, code: ReleaseReason) =>
    work.release.push({ sequence, delaySeconds, attemptBack, error, code });
  switch (outcome.kind) {
    case 'published':
      (type === BACKLOG_LATE ? work.acknowledgeFact : work.acknowledge).push({
        sequence,
        messageId: outcome.messageId,
      });
      return;
    case 'refused':
      toPark(outcome.reason, 0, parkReason(outcome.reason));
      return;
    case 'exhausted':
      // More than this claim's, where a relay died before it had parked it.
      toPark(exhausted(maxAttempts, lastError), attempts - maxAttempts, 'AttemptsExhausted');
      return;
    case 'unavailable': {
      const { reason, whole } = outcome;
      if (whole || attempts < maxAttempts) toRelease(backoff(), whole, reason, releaseReason(reason));
      else toPark(exhausted(maxAttempts, reason), 0, 'AttemptsExhausted');
      return;
    }
    case 'deferred':
      toRelease(backoff(), true, null, 'Deferred');
      return;
    case 'unsent':
      toRelease(0, true, null, 'Unsent');
      return;
    case 'unanswered':
      work.unanswered += 1;
  }
}

const exhausted = (maxAttempts: number, lastError: string | null) =>
  `AttemptsExhausted: ${maxAttempts}; ${lastError === null ? 'no answer ever came back' : `last answer: ${lastError}`}`;
