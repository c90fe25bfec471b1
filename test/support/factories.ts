// Rows of outbox_event in named situations, by plain SQL: a test of the relay needs no recorder.

import { randomUUID } from 'node:crypto';
import type { TestDatabase } from './database.ts';

/** A row's columns. Times are seconds from now by the database's clock, negative for the past. */
export interface EventColumns {
  eventId: string;
  destination: string;
  source: string;
  type: string;
  orderingKey: string | null;
  /** Any JSON value, stored as `JSON.stringify` writes it. */
  payload: unknown;
  /** The exact text instead of `payload`. */
  payloadText: string;
  traceParent: string | null;
  recordedInSeconds: number;
  state: 'PENDING' | 'PUBLISHED' | 'PARKED';
  dueInSeconds: number;
  attempts: number;
  releases: number;
  claimToken: string | null;
  leaseInSeconds: number | null;
  publishedInSeconds: number | null;
  messageId: string | null;
  parkedInSeconds: number | null;
  parkReason: string | null;
  lastError: string | null;
}

type Overrides = Partial<EventColumns>;

/** An inserted row, with what a test needs to find it again. */
export interface InsertedEvent {
  /** As the engine has it; in rows from `db.sql` it is a number. */
  sequence: bigint;
  eventId: string;
  claimToken: string | null;
}

const HOUR_SECONDS = 3_600;

/** Due now, never claimed. */
export const pending = (overrides: Overrides = {}): Overrides => overrides;

/** Not due for so many seconds. */
export const dueIn = (seconds: number, overrides: Overrides = {}): Overrides => ({
  dueInSeconds: seconds,
  ...overrides,
});

/** Claimed once, with so many seconds of its lease left; the token is `claimToken`, a fresh one by default. */
export const leased = ({
  secondsLeft = 30,
  ...overrides
}: Overrides & { secondsLeft?: number } = {}): Overrides => ({
  attempts: 1,
  claimToken: randomUUID(),
  leaseInSeconds: secondsLeft,
  ...overrides,
});

/** Claimed once by a relay that never settled it; the lease ran out so many seconds ago. */
export const leaseExpired = ({
  secondsAgo = 1,
  ...overrides
}: Overrides & { secondsAgo?: number } = {}): Overrides => leased({ secondsLeft: -secondsAgo, ...overrides });

/** Acknowledged so many hours ago. */
export const published = ({
  hoursAgo = 0,
  ...overrides
}: Overrides & { hoursAgo?: number } = {}): Overrides => ({
  state: 'PUBLISHED',
  attempts: 1,
  recordedInSeconds: -hoursAgo * HOUR_SECONDS,
  dueInSeconds: -hoursAgo * HOUR_SECONDS,
  publishedInSeconds: -hoursAgo * HOUR_SECONDS,
  messageId: randomUUID(),
  ...overrides,
});

/** Given up to a person, with the reason. */
export const parked = ({
  reason = 'InvalidMessageContents: invalid characters found',
  ...overrides
}: Overrides & { reason?: string } = {}): Overrides => ({
  state: 'PARKED',
  attempts: 1,
  parkedInSeconds: 0,
  parkReason: reason,
  lastError: reason,
  ...overrides,
});

/**
 * Inserts `count` rows by one statement: to 'stock', from '/orders', 'order.placed', payload `{"n":1}`, `{"n":2}`, …
 * unless the situation says otherwise.
 * @param situation the same for each row, or made per row from its index (0 …). A `claimToken` made by `leased()` is
 *   then one for all, as one claim gives it, or one each.
 * @returns the rows in the order of their sequence.
 */
export async function insertEvents(
  db: Pick<TestDatabase, 'sql'>,
  count: number,
  situation: Overrides | ((index: number) => Overrides) = {},
): Promise<InsertedEvent[]> {
  const rows = Array.from({ length: count }, (_, index) =>
    complete(index, typeof situation === 'function' ? situation(index) : situation),
  );
  const inserted = await db.sql<Omit<InsertedEvent, 'sequence'> & { sequence: number }>(INSERT, [
    JSON.stringify(rows),
  ]);
  return inserted
    .toSorted((a, b) => a.sequence - b.sequence)
    .map((event) => ({ ...event, sequence: BigInt(event.sequence) }));
}

/** One row: see insertEvents. */
export async function insertEvent(
  db: Pick<TestDatabase, 'sql'>,
  situation: Overrides = {},
): Promise<InsertedEvent> {
  const [event] = await insertEvents(db, 1, situation);
  if (!event) throw new Error('INSERT returned no row');
  return event;
}

function complete(index: number, { payload = { n: index + 1 }, ...overrides }: Overrides): Overrides {
  return {
    eventId: randomUUID(),
    destination: 'stock',
    source: '/orders',
    type: 'order.placed',
    payloadText: JSON.stringify(payload),
    recordedInSeconds: 0,
    state: 'PENDING',
    dueInSeconds: 0,
    attempts: 0,
    releases: 0,
    ...overrides,
  };
}

const INSERT = `
  INSERT INTO outbox_event (event_id, destination, source, type, ordering_key, payload, trace_parent, recorded_at, state,
    due_at, attempts, releases, claim_token, lease_until, published_at, message_id, parked_at, park_reason, last_error)
  SELECT "eventId", destination, source, type, "orderingKey", "payloadText"::json, "traceParent",
    now() + make_interval(secs => "recordedInSeconds"), state, now() + make_interval(secs => "dueInSeconds"), attempts, releases,
    "claimToken", now() + make_interval(secs => "leaseInSeconds"), now() + make_interval(secs => "publishedInSeconds"),
    "messageId", now() + make_interval(secs => "parkedInSeconds"), "parkReason", "lastError"
  FROM ROWS FROM (json_to_recordset($1::json) AS ("eventId" uuid, destination text, source text, type text,
    "orderingKey" text, "payloadText" text, "traceParent" text, "recordedInSeconds" float8, state text,
    "dueInSeconds" float8, attempts int, releases int, "claimToken" uuid, "leaseInSeconds" float8, "publishedInSeconds" float8,
    "messageId" text, "parkedInSeconds" float8, "parkReason" text, "lastError" text)) WITH ORDINALITY
  ORDER BY ordinality
  RETURNING sequence, event_id AS "eventId", claim_token AS "claimToken"`;
