import { onWriteConflictAgain, type Store } from '../shared/store.ts';
import { HELD, heldBy, PLACE } from './fence.ts';
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
  UPDATE outbox_event
  SET state = 'PARKED', parked_at = clock_timestamp(), park_reason = ($3::text[])[${PLACE}],
      attempts = attempts - ($4::int[])[${PLACE}], claim_token = NULL, lease_until = NULL
  WHERE ${HELD}
  RETURNING sequence, event_id, destination, type, source, ordering_key, attempts, park_reason),
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
      token,
      rows.map(({ reason }) => reason),
      rows.map(({ attemptsBack }) => attemptsBack),
      tell ?? null,
    ]),
  );
  return changed.map(({ sequence }) => sequence);
}
