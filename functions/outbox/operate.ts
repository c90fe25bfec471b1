import { validate as isUuid } from 'uuid';
import { onWriteConflictAgain, rfc3339, type Store } from '../shared/store.ts';

/** Which events a person means; every condition given must hold. */
export interface EventSelection {
  readonly eventId?: string;
  readonly destination?: string;
  readonly type?: string;
  /** The beginning of the reason, such as `TooLarge`. */
  readonly reason?: string;
}

/** Where an event is. Times are RFC 3339 in UTC. */
export interface EventWhereabouts {
  readonly sequence: bigint;
  readonly eventId: string;
  readonly destination: string;
  readonly type: string;
  readonly orderingKey: string | null;
  readonly state: 'PENDING' | 'PUBLISHED' | 'PARKED';
  readonly recordedAt: string;
  readonly dueAt: string;
  readonly attempts: number;
  readonly leaseUntil: string | null;
  readonly publishedAt: string | null;
  readonly messageId: string | null;
  readonly parkReason: string | null;
  readonly lastError: string | null;
  /** Names of the consumers that have applied it. */
  readonly appliedBy: string[];
}

/** Rows changed by one statement; small, so that nothing waits for long. */
const PAGE = 1_000;

/** What was chosen: `$1` to `$4` as `valuesOf` gives them, null for any. */
const CHOSEN = `($1::uuid IS NULL OR event_id = $1::uuid)
  AND ($2::text IS NULL OR destination = $2) AND ($3::text IS NULL OR type = $3)
  AND ($4::text IS NULL OR starts_with(coalesce(park_reason, last_error, ''), $4))`;

const SELECTED = `
SELECT sequence FROM outbox_event WHERE state = 'PARKED' AND ${CHOSEN}
ORDER BY sequence LIMIT ${PAGE} FOR UPDATE SKIP LOCKED`;

const REPLAY = `
WITH selected AS MATERIALIZED (${SELECTED})
UPDATE outbox_event
SET state = 'PENDING', parked_at = NULL, park_reason = NULL, last_error = NULL, attempts = 0, releases = 0,
    waiting_since = NULL, replays = replays + 1, due_at = now()
WHERE sequence = ANY (ARRAY(SELECT sequence FROM selected)) AND state = 'PARKED'`;

const DISCARD = `
WITH selected AS MATERIALIZED (${SELECTED})
DELETE FROM outbox_event WHERE sequence = ANY (ARRAY(SELECT sequence FROM selected)) AND state = 'PARKED'`;

const FIND = `
SELECT sequence, event_id AS "eventId", destination, type, ordering_key AS "orderingKey", state, attempts,
  ${rfc3339('recorded_at')} AS "recordedAt", ${rfc3339('due_at')} AS "dueAt", ${rfc3339('lease_until')} AS "leaseUntil",
  ${rfc3339('published_at')} AS "publishedAt", message_id AS "messageId", park_reason AS "parkReason",
  last_error AS "lastError",
  ARRAY(SELECT consumer FROM applied_event AS a WHERE a.source = e.source AND a.event_id = e.event_id ORDER BY 1)
    AS "appliedBy"
FROM outbox_event AS e WHERE event_id = $1::uuid ORDER BY destination`;

// A reason begins with its code, up to a colon.
const COUNT = `
SELECT destination, type, split_part(coalesce(park_reason, last_error, ''), ':', 1) AS reason, count(*)::int AS count,
  ${rfc3339('min(coalesce(parked_at, waiting_since, due_at))')} AS "since", min(event_id::text) AS example
FROM outbox_event WHERE state = $5 AND ${CHOSEN} GROUP BY 1, 2, 3 ORDER BY count DESC, 1, 2, 3`;

/** Events of one kind. */
export interface EventKind {
  readonly destination: string;
  readonly type: string;
  /** The code of what they were parked for, or of what stood in the way last; empty where nothing did. */
  readonly reason: string;
  readonly count: number;
  /** When the first of them was parked, or was due. RFC 3339 in UTC. */
  readonly since: string;
  /** The id of one of them. */
  readonly example: string;
}

/** Counts parked or pending events by destination, type and reason, most first. Reads the whole table. */
export const countEvents = (
  store: Store,
  state: 'PARKED' | 'PENDING',
  selection: EventSelection = {},
): Promise<EventKind[]> => store.query<EventKind>(COUNT, [...valuesOf(selection), state]);

const valuesOf = ({ eventId, destination, type, reason }: EventSelection) =>
  [eventId, destination, type, reason].map((value) => value ?? null);

/** Answers "where is event X?": one entry for each of its destinations; none when it is unknown or pruned. Throws TypeError for what is no UUID. */
export async function findEvent(store: Store, eventId: string): Promise<EventWhereabouts[]> {
  refuseUnlessUuid(eventId);
  return store.query<EventWhereabouts>(FIND, [eventId]);
}

/**
 * Sends parked events again, with fresh attempts. One that held up its ordering key goes out first; where the key was
 * set to `skip`, later events may have gone out before it. A FIFO queue takes it as a new message.
 *
 * @returns number of events; in small statements, so others are not held up
 * @throws TypeError when the selection is empty, or its event id is no UUID
 */
export const replayParked = (store: Store, selection: EventSelection) => all(store, REPLAY, selection);

/** Deletes parked events for good; an ordering key they held up moves on. Returns and throws like `replayParked`. */
export const discardParked = (store: Store, selection: EventSelection) => all(store, DISCARD, selection);

async function all(store: Store, statement: string, selection: EventSelection): Promise<number> {
  const values = valuesOf(selection);
  if (values.every((value) => value === null) || values.includes('')) {
    throw new TypeError('expected at least one of eventId, destination, type, reason');
  }
  if (selection.eventId !== undefined) refuseUnlessUuid(selection.eventId);
  let changed = 0;
  for (let page = PAGE; page === PAGE; changed += page) {
    page = await onWriteConflictAgain(() => store.execute(statement, values));
  }
  return changed;
}

function refuseUnlessUuid(eventId: string): void {
  if (!isUuid(eventId)) throw new TypeError(`event id: expected a UUID, got ${JSON.stringify(eventId)}`);
}
