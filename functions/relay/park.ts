import { onWriteConflictAgain, type Store } from '../shared/store.ts';
import { heldBy } from './fence.ts';

/** A row that waits for a person. */
export interface Parking {
  readonly sequence: bigint;
  /** A code and a sentence, for the person. */
  readonly reason: string;
  /** Whether the claim's attempt is given back, because it was not sent this time. */
  readonly attemptBack: boolean;
}

const PARK = `
UPDATE outbox_event AS e
SET state = 'PARKED', parked_at = clock_timestamp(), park_reason = p.reason,
    attempts = e.attempts - p.attempt_back::int, claim_token = NULL, lease_until = NULL
FROM unnest($1::bigint[], $2::text[], $3::boolean[]) AS p(sequence, reason, attempt_back)
WHERE e.sequence = p.sequence AND e.claim_token = $4::uuid AND e.state = 'PENDING'`;

/**
 * Takes rows out of the relay's sight until a person replays or discards them. Nothing is lost: the row stays.
 *
 * @returns number of rows that changed; fewer than given means the rest was fenced out
 * @throws TypeError when the token is missing, before any SQL
 */
export async function park(store: Store, token: string, parkings: readonly Parking[]): Promise<number> {
  const rows = heldBy(token, parkings);
  if (rows.length === 0) return 0;
  return onWriteConflictAgain(() =>
    store.execute(PARK, [
      rows.map(({ sequence }) => sequence),
      rows.map(({ reason }) => reason),
      rows.map(({ attemptBack }) => attemptBack),
      token,
    ]),
  );
}
