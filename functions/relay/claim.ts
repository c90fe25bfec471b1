import { countdown, type TimeLeft } from '../shared/deadline.ts';
import { onWriteConflictAgain, type Store } from '../shared/store.ts';

/** A row whose claim we won. */
export interface ClaimedEvent {
  readonly sequence: bigint;
  readonly eventId: string;
  readonly destination: string;
  readonly source: string;
  readonly type: string;
  /** JSON text as recorded; the relay never parses it. */
  readonly payload: string;
  /** RFC 3339, UTC. */
  readonly recordedAt: string;
  /** Seconds since the epoch, on the database's clock. */
  readonly dueAt: number;
  /** Claims so far, this one included. */
  readonly attempts: number;
  /** Times released with back-off so far. */
  readonly releases: number;
  /** Last answer that was not success; null while no answer ever came back. */
  readonly lastError: string | null;
}

/** Rows held until `leaseLeft` runs out; settling proves the claim with `token`. */
export interface Claim {
  readonly token: string;
  /** In sequence order. */
  readonly events: readonly ClaimedEvent[];
  readonly leaseLeft: TimeLeft;
}

/** How much to claim, for how long, and from which `due_at` (epoch seconds) on; null: from the oldest. */
export interface ClaimRequest {
  readonly token: string;
  readonly limit: number;
  readonly leaseSeconds: number;
  readonly dueFrom: number | null;
}

// One statement in its own transaction, and the UPDATE's own predicate decides who wins (promise 2).
// - MATERIALIZED and ANY(ARRAY(…)): `IN (SELECT … LIMIT)` can take more rows than the limit, a join can scan the table.
// - LIMIT is a literal, so that the planner knows it.
// - One equality and one range in index order: an OR over states would sort the whole backlog.
// - RETURNING has no order; times come as text and numbers, so no time zone setting has a say.
const claimSql = (limit: number) => `
WITH due AS MATERIALIZED (
  SELECT sequence FROM outbox_event
  WHERE state = 'PENDING' AND due_at <= now() AND due_at >= coalesce(to_timestamp($3::float8), '-infinity')
    AND (lease_until IS NULL OR lease_until <= now())
  ORDER BY due_at, sequence LIMIT ${limit}
  FOR NO KEY UPDATE SKIP LOCKED)
UPDATE outbox_event
SET claim_token = $1::uuid, lease_until = now() + $2::float8 * interval '1 second', attempts = attempts + 1
WHERE sequence = ANY (ARRAY(SELECT sequence FROM due))
  AND state = 'PENDING' AND due_at <= now() AND (lease_until IS NULL OR lease_until <= now())
RETURNING sequence, event_id AS "eventId", destination, source, type, payload::text AS payload, attempts, releases,
  to_char(recorded_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS "recordedAt",
  extract(epoch FROM due_at)::float8 AS "dueAt", last_error AS "lastError"`;

/**
 * Takes due rows for this relay. Rows that another relay holds are skipped; losing a race is not an error, it is
 * fewer rows. An expired lease needs no clean-up: its row is simply due.
 *
 * @returns at most `limit` events; an empty claim means there is nothing to publish
 */
export async function claimDue(store: Store, request: ClaimRequest): Promise<Claim> {
  const { token, limit, leaseSeconds, dueFrom } = request;
  if (!Number.isInteger(limit) || limit < 1)
    throw new RangeError(`claim: limit ${limit} is not a whole number above 0`);
  // Counted from before the statement: our end of the lease comes no later than the database's.
  const leaseLeft = countdown(leaseSeconds * 1000);
  const events = await onWriteConflictAgain(() =>
    store.query<ClaimedEvent>(claimSql(limit), [token, leaseSeconds, dueFrom]),
  );
  return { token, events: events.toSorted((a, b) => Number(a.sequence - b.sequence)), leaseLeft };
}
