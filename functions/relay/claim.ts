import { countdown, type TimeLeft } from '../shared/deadline.ts';
import { onWriteConflictAgain, rfc3339, type Store } from '../shared/store.ts';

/** A row whose claim we won. */
export interface ClaimedEvent {
  readonly sequence: bigint;
  readonly eventId: string;
  readonly destination: string;
  readonly source: string;
  readonly type: string;
  readonly orderingKey: string | null;
  /** W3C `traceparent` of whatever recorded it. */
  readonly traceParent: string | null;
  /** JSON text as recorded; the relay never parses it. */
  readonly payload: string;
  /** RFC 3339, UTC. */
  readonly recordedAt: string;
  /** The same: what it was recorded for, when that was later. */
  readonly dueTime: string | null;
  /** Seconds since the epoch, on the database's clock. */
  readonly dueAt: number;
  /** Seconds since the epoch: when it first fell due. */
  readonly waitingSince: number;
  /** Seconds it has been waiting, on the database's clock. */
  readonly ageSeconds: number;
  /** Claims so far, this one included. */
  readonly attempts: number;
  /** Times released with back-off so far. */
  readonly releases: number;
  /** Times a person sent it again. */
  readonly replays: number;
  /** The answer that the claim before this one got; null when none came back. */
  readonly lastError: string | null;
}

/** Rows held until `leaseLeft` runs out; settling proves the claim with `token`. */
export interface Claim {
  readonly token: string;
  /** In sequence order. */
  readonly events: readonly ClaimedEvent[];
  readonly leaseLeft: TimeLeft;
}

/** By whom and for how long. */
export interface Lease {
  /** UUID, fresh for each claim. */
  readonly token: string;
  readonly leaseSeconds: number;
}

/** What makes a row claimable, whoever looks at it. Only the database's clock decides. */
export const CLAIMABLE = `state = 'PENDING' AND due_at <= now() AND (lease_until IS NULL OR lease_until <= now())`;

/**
 * Takes the lease; `$1` is the token, `$2` the lease in seconds. A row that still has a token was never settled by
 * whoever claimed it last: what was answered before that says nothing any more.
 */
export const LEASE = `claim_token = $1::uuid, lease_until = now() + $2::float8 * interval '1 second',
  attempts = attempts + 1, last_error = CASE WHEN claim_token IS NULL THEN last_error END`;

/** When a row first fell due: a release has moved `due_at`, and kept that here. */
const WAITING_SINCE = 'coalesce(waiting_since, due_at)';

/** Times come as text and numbers, so no time zone setting has a say. A released row waits since it was recorded. */
export const CLAIMED = `
sequence, event_id AS "eventId", destination, source, type, ordering_key AS "orderingKey", payload::text AS payload,
trace_parent AS "traceParent",
${rfc3339('recorded_at')} AS "recordedAt",
CASE WHEN replays = 0 AND ${WAITING_SINCE} > recorded_at
  THEN ${rfc3339(WAITING_SINCE)} END AS "dueTime",
extract(epoch FROM due_at)::float8 AS "dueAt",
extract(epoch FROM ${WAITING_SINCE})::float8 AS "waitingSince",
extract(epoch FROM now() - ${WAITING_SINCE})::float8 AS "ageSeconds",
attempts, releases, replays, last_error AS "lastError"`;

/**
 * Of the rows in `due`, in its order, the first ones whose payloads fit into `$3` bytes together. `due` brings the payload
 * as it lies in the row, and a row is unpacked to be measured only where those before it, packed, leave room for it.
 */
export const FITTING = `
fitting AS MATERIALIZED (
  SELECT sequence FROM (
    SELECT sequence, bytes, sum(bytes) OVER (ROWS UNBOUNDED PRECEDING) AS total FROM (
      SELECT sequence, octet_length(payload::text) AS bytes FROM (
        SELECT sequence, payload,
               sum(pg_column_size(payload)) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS ahead
        FROM due) AS packed
      WHERE ahead IS NULL OR ahead < $3::int) AS measured) AS summed
  WHERE total <= $3::int OR total = bytes)`;

// One statement in its own transaction, and the UPDATE's own predicate decides who wins (promise 2).
// - MATERIALIZED and ANY(ARRAY(…)): `IN (SELECT … LIMIT)` can take more rows than the limit, a join can scan the table.
// - LIMIT is a literal, so that the planner knows it.
// - One equality and one range in index order: an OR over states would sort the whole backlog.
const claimSql = (limit: number) => `
WITH due AS MATERIALIZED (
  SELECT sequence, payload FROM outbox_event
  WHERE ${CLAIMABLE} AND ordering_key IS NULL AND due_at >= coalesce(to_timestamp($4::float8), '-infinity')
  ORDER BY due_at, sequence LIMIT ${limit}
  FOR NO KEY UPDATE SKIP LOCKED),
${FITTING}
UPDATE outbox_event SET ${LEASE}
WHERE sequence = ANY (ARRAY(SELECT sequence FROM fitting)) AND ${CLAIMABLE}
RETURNING ${CLAIMED}, (SELECT count(*)::int FROM due) AS "lookedAt"`;

/**
 * Takes due rows without an ordering key, oldest first. Rows that another relay holds are skipped; losing a race is
 * not an error, it is fewer rows. An expired lease needs no clean-up: its row is simply due.
 *
 * @param bytes of payload, at most; an event alone may have more
 * @param dueFrom epoch seconds of the oldest `due_at` to look at; null: from the very oldest
 * @returns an empty claim when there is nothing to publish; `full` when a limit ended it, so that there may be more
 */
export async function claimDue(
  store: Store,
  lease: Lease,
  {
    limit,
    bytes,
    dueFrom,
  }: { readonly limit: number; readonly bytes: number; readonly dueFrom: number | null },
): Promise<Claim & { readonly full: boolean }> {
  if (!Number.isInteger(limit) || limit < 1) {
    throw new RangeError(`claim: limit ${limit} is not a whole number above 0`);
  }
  const claim = await holdFor(lease, () =>
    store.query<ClaimedEvent & { readonly lookedAt: number }>(claimSql(limit), [
      lease.token,
      lease.leaseSeconds,
      bytes,
      dueFrom,
    ]),
  );
  const lookedAt = claim.events[0]?.lookedAt ?? 0;
  return { ...claim, full: lookedAt === limit || claim.events.length < lookedAt };
}

/** Runs a claiming statement and counts its lease from before it: our end comes no later than the database's. */
export async function holdFor<Row extends ClaimedEvent>(
  { token, leaseSeconds }: Lease,
  claiming: () => Promise<Row[]>,
): Promise<Claim & { readonly events: readonly Row[] }> {
  const leaseLeft = countdown(leaseSeconds * 1000);
  const events = await onWriteConflictAgain(claiming);
  // RETURNING has no order.
  return { token, events: events.toSorted((a, b) => Number(a.sequence - b.sequence)), leaseLeft };
}
