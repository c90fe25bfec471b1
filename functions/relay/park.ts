import { onWriteConflictAgain, type Store } from '../shared/store.ts';
import { heldBy } from './fence.ts';
import { EVENT_PARKED, OPERATIONS_SOURCE } from './operations.ts';

/** A row that waits for a person. */
export interface Parking {
  readonly sequence: bigint;
  /** A code and a sentence, for the person. */
  readonly reason: string;
  /** Attempts given back: claims in which it was not sent. */
  readonly attemptsBack: number;
}

// The fact that an event was parked is itself recorded as an event, in the same statement: it exists exactly when the
// row was parked, and goes out like any other. Nobody is told of a parked operational event.
const PARK = `
WITH parked AS (
  UPDATE outbox_event AS e
  SET state = 'PARKED', parked_at = clock_timestamp(), park_reason = p.reason,
      attempts = e.attempts - p.attempts_back, claim_token = NULL, lease_until = NULL
  FROM unnest($1::bigint[], $2::text[], $3::int[]) AS p(sequence, reason, attempts_back)
  WHERE e.sequence = p.sequence AND e.claim_token = $4::uuid AND e.state = 'PENDING'
  RETURNING e.sequence, e.event_id, e.destination, e.type, e.source, e.ordering_key, e.attempts, e.park_reason),
told AS (
  INSERT INTO outbox_event (event_id, destination, source, type, payload)
  SELECT gen_random_uuid(), $5::text, '${OPERATIONS_SOURCE}', '${EVENT_PARKED}', json_build_object(
    'eventId', event_id, 'destination', destination, 'type', type, 'source', source, 'orderingKey', ordering_key,
    'attempts', attempts, 'reason', park_reason)
  FROM parked WHERE $5::text IS NOT NULL AND NOT (source = '${OPERATIONS_SOURCE}' AND type LIKE 'outbox.%'))
SELECT sequence FROM parked`;

/**
 * Takes rows out of the relay's sight until a person replays or discards them. Nothing is lost: the row stays.
 *
 * @param tell destination for `outbox.event.parked`; undefined: nobody is told
 * @returns the sequences of rows that changed; fewer than given means the rest was fenced out
 * @throws TypeError when the token is missing, before any SQL
 */
export async function park(
  store: Store,
  token: string,
  parkings: readonly Parking[],
  tell?: string,
): Promise<bigint[]> {
  const rows = heldBy(token, parkings);
  if (rows.length === 0) return [];
  const changed = await onWriteConflictAgain(() =>
    store.query<{ sequence: bigint }>(PARK, [
      rows.map(({ sequence }) => sequence),
      rows.map(({ reason }) => reason),
      rows.map(({ attemptsBack }) => attemptsBack),
      token,
      tell ?? null,
    ]),
  );
  return changed.map(({ sequence }) => sequence);
}
