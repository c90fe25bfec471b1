import { onWriteConflictAgain, type Store } from '../shared/store.ts';
import { heldBy } from './fence.ts';

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
SET claim_token = NULL, lease_until = NULL,
    waiting_since = CASE WHEN r.delay > 0 THEN coalesce(e.waiting_since, e.due_at) ELSE e.waiting_since END,
    due_at = CASE WHEN r.delay > 0 THEN clock_timestamp() + r.delay * interval '1 second' ELSE e.due_at END,
    attempts = e.attempts - r.attempt_back::int, releases = e.releases + (r.delay > 0)::int,
    last_error = coalesce(r.error, e.last_error)
FROM unnest($1::bigint[], $2::float8[], $3::boolean[], $4::text[]) AS r(sequence, delay, attempt_back, error)
WHERE e.sequence = r.sequence AND e.claim_token = $5::uuid AND e.state = 'PENDING'
RETURNING e.sequence`;

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
      rows.map(({ delaySeconds }) => delaySeconds),
      rows.map(({ attemptBack }) => attemptBack),
      rows.map(({ error }) => error),
      token,
    ]),
  );
  return changed.map(({ sequence }) => sequence);
}
