import type { ParkReason, ReleaseReason } from './reasons.ts';

/** What one tick did, in rows. */
export interface TickCounts {
  /** Claims won. A row claimed twice in a tick counts twice. */
  claimed: number;
  /** Accepted by a queue. */
  published: number;
  /** Written as published; the rest of `published` was fenced out. */
  acknowledged: number;
  /** Settled too late: the claim had been lost, and the row was left alone. */
  fencedOut: number;
  /** Given back, with back-off or untried. */
  released: number;
  /** The same by reason; reasons that did not occur are absent. */
  releasedBy: Partial<Record<ReleaseReason, number>>;
  /** Given up to a person. */
  parked: number;
  /** The same by reason. */
  parkedBy: Partial<Record<ParkReason, number>>;
  /** Sent without an answer in time; left to their lease. */
  unanswered: number;
  /** Not rows: how long the oldest claimed event had been waiting, in seconds. */
  oldestSeconds: number;
}

/** All zero. */
export const noCounts = (): TickCounts => ({
  claimed: 0,
  published: 0,
  acknowledged: 0,
  fencedOut: 0,
  released: 0,
  releasedBy: {},
  parked: 0,
  parkedBy: {},
  unanswered: 0,
  oldestSeconds: 0,
});
