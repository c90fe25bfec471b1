import { onWriteConflictAgain, type Store } from '../shared/store.ts';
import { HELD, heldBy, PLACE } from './fence.ts';

/** A row to give back. */
export interface Release {
  readonly sequence: bigint;
  /** Seconds of back-off until it is due again; 0 hands it back as it was. */
  readonly delaySeconds: number;
  /** Whether the claim's attempt is given back, because nothing was learnt about the event. */
  readonly attemptBack: boolean;
  /** The answer that was not success; null leaves `last_error` as it was. */
  readonly error: string | null;
}

const RELEASE = `
UPDATE outbox_event AS e
SET claim_token = NULL, lease_until = NULL, (waiting_since, due_at, attempts, releases, last_error) = (
  SELECT CASE WHEN delay > 0 THEN coalesce(e.waiting_since, e.due_at) ELSE e.waiting_since END,
         CASE WHEN delay > 0 THEN clock_timestamp() + delay * interval '1 second' ELSE e.due_at END,
         e.attempts - attempt_back::int, e.releases + (delay > 0)::int, coalesce(error, e.last_error)
  FROM (SELECT ($3::float8[])[place] AS delay, ($4::boolean[])[place] AS attempt_back, ($5::text[])[place] AS error
        FROM ${PLACE} AS place) AS given)
WHERE ${HELD}
RETURNING sequence`;

/**
 * Gives rows back before their lease ends, to be claimed again when due.
 *
 * @returns the sequences of rows that changed; fewer than given means the rest was fenced out
 * @throws TypeError when the token is missing, before any SQL
 */
export async function release(store: Store, token: string, releases: readonly Release[]): Promise<bigint[]> {
  const rows = heldBy(token, releases);
  if (rows.length === 0) return [];
  const changed = await onWriteConflictAgain(() =>
    store.query<{ sequence: bigint }>(RELEASE, [
      rows.map(({ sequence }) => sequence),
      token,
      rows.map(({ delaySeconds }) => delaySeconds),
      rows.map(({ attemptBack }) => attemptBack),
      rows.map(({ error }) => error),
    ]),
  );
  return changed.map(({ sequence }) => sequence);
}
