import type { Store } from '../shared/store.ts';
import {
  CLAIMABLE,
  CLAIMED,
  FITTING,
  holdFor,
  LEASE,
  type Claim,
  type ClaimedEvent,
  type Lease,
} from './claim.ts';

/** Which keys of a destination to look at. */
export interface KeyRange {
  readonly destination: string;
  /** The key after which to go on; null: from the first. */
  readonly after: string | null;
  /** Keys to look at, at most. */
  readonly limit: number;
  /** Whether a parked event holds up its key (or the key moves on past it). */
  readonly hold: boolean;
}

/** A claim of heads, and for each range the key looked at last; null when the range came to the last key there is. */
export interface HeadClaim extends Claim {
  readonly reached: ReadonlyMap<string, string | null>;
  /** Destinations of heads that are due and did not fit into the claim. */
  readonly leftOut: ReadonlySet<string>;
}

// From key to key along the index (a "loose index scan"), one probe a key, to the first unpublished event of each:
// its head. Only heads are claimed, so at most one event of a key is ever under way, and the next can go only once
// this one is published. What waits behind a head is never looked at, so a long queue in one key costs the others nothing.
// Safe under SKIP LOCKED: another relay's claim or acknowledge that we cannot see yet holds the head's lock, or has
// changed the head, and then CLAIMABLE, checked again on its newest version, drops it; no other row takes its place.
// A head that we cannot see yet has a higher sequence: recording takes a lock on the key (record.ts).
const claimHeadsSql = `
WITH asked AS (
  SELECT * FROM unnest($4::text[], $5::text[], $6::int[], $7::boolean[]) AS a(destination, after, keys, hold)),
heads AS MATERIALIZED (
  SELECT asked.destination, head.* FROM asked, LATERAL (
    WITH RECURSIVE step(ordering_key, sequence, position) AS (
      (SELECT ordering_key, sequence, 1 FROM outbox_event
       WHERE destination = asked.destination AND ordering_key > coalesce(asked.after, '')
         AND state <> 'PUBLISHED' AND (asked.hold OR state = 'PENDING')
       ORDER BY ordering_key, sequence LIMIT 1)
      UNION ALL
      SELECT next.ordering_key, next.sequence, step.position + 1 FROM step, LATERAL (
        SELECT ordering_key, sequence FROM outbox_event
        WHERE destination = asked.destination AND ordering_key > step.ordering_key
          AND state <> 'PUBLISHED' AND (asked.hold OR state = 'PENDING')
        ORDER BY ordering_key, sequence LIMIT 1) AS next
      WHERE step.position < asked.keys)
    SELECT ordering_key, sequence, position FROM step) AS head),
due AS MATERIALIZED (
  SELECT sequence, payload FROM outbox_event
  WHERE sequence = ANY (ARRAY(SELECT sequence FROM heads)) AND ${CLAIMABLE}
  ORDER BY sequence FOR NO KEY UPDATE SKIP LOCKED),
${FITTING},
claimed AS (
  UPDATE outbox_event SET ${LEASE}
  WHERE sequence = ANY (ARRAY(SELECT sequence FROM fitting)) AND ${CLAIMABLE}
  RETURNING ${CLAIMED})
SELECT heads.destination AS "atDestination", heads.ordering_key AS "atKey", heads.position,
       due.sequence IS NOT NULL AS "isDue", claimed.*
FROM heads LEFT JOIN due USING (sequence) LEFT JOIN claimed USING (sequence)
ORDER BY heads.position`;

// From destination to destination along the same index.
const KEYED_DESTINATIONS = `
WITH RECURSIVE step(destination) AS (
  (SELECT destination FROM outbox_event WHERE state <> 'PUBLISHED' AND ordering_key IS NOT NULL ORDER BY destination LIMIT 1)
  UNION ALL
  SELECT next.destination FROM step, LATERAL (
    SELECT destination FROM outbox_event
    WHERE state <> 'PUBLISHED' AND ordering_key IS NOT NULL AND destination > step.destination
    ORDER BY destination LIMIT 1) AS next)
SELECT destination FROM step`;

/** Names of all destinations with unpublished keyed events, those of no relay too. */
export const keyedDestinations = async (store: Store): Promise<string[]> =>
  (await store.query<{ destination: string }>(KEYED_DESTINATIONS, [])).map(({ destination }) => destination);

type Probe = { atDestination: string; atKey: string; position: number; isDue: boolean } & (
  ClaimedEvent | { [K in keyof ClaimedEvent]: null }
);

/**
 * Takes the first unpublished event of each ordering key in the ranges, where it is due and nobody holds it.
 * What does not fit into `bytes` of payload has its turn in the next round.
 * The cost depends on the number of keys looked at, never on how much waits behind them.
 */
export async function claimHeads(
  store: Store,
  lease: Lease,
  ranges: readonly KeyRange[],
  bytes: number,
): Promise<HeadClaim> {
  let probes: readonly Probe[] = [];
  const claim = await holdFor(lease, async () => {
    probes = await store.query<Probe>(claimHeadsSql, [
      lease.token,
      lease.leaseSeconds,
      bytes,
      ranges.map(({ destination }) => destination),
      ranges.map(({ after }) => after),
      ranges.map(({ limit }) => limit),
      ranges.map(({ hold }) => hold),
    ]);
    return probes.filter((probe) => probe.eventId !== null);
  });
  const reached = new Map(
    ranges.map(({ destination, limit }) => {
      const last = probes.find((probe) => probe.atDestination === destination && probe.position === limit);
      return [destination, last?.atKey ?? null];
    }),
  );
  const missed = probes.filter(({ isDue, eventId }) => isDue && eventId === null);
  const leftOut = new Set(missed.map(({ atDestination }) => atDestination));
  return { ...claim, reached, leftOut };
}
