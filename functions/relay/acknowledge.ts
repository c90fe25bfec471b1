import { onWriteConflictAgain, type Store } from '../shared/store.ts';
import { HELD, heldBy, PLACE } from './fence.ts';

/** A row to acknowledge and the queue's own id of its message. */
export interface Acknowledgement {
  readonly sequence: bigint;
  readonly messageId: string;
}

const ACKNOWLEDGE = `
UPDATE outbox_event
SET state = 'PUBLISHED', published_at = clock_timestamp(), message_id = ($3::text[])[${PLACE}],
    claim_token = NULL, lease_until = NULL
WHERE ${HELD}`;

const ACKNOWLEDGE_AND_DELETE = `DELETE FROM outbox_event WHERE ${HELD}`;

/**
 * Settles published rows: they go out of the claim's sight, kept as PUBLISHED until prune (or deleted, with
 * `keepPublished` false). Rows whose claim was lost do not match and stay as they are.
 *
 * @returns number of rows that changed; fewer than given means the rest was fenced out
 * @throws TypeError when the token is missing, before any SQL
 */
export async function acknowledge(
  store: Store,
  token: string,
  acknowledgements: readonly Acknowledgement[],
  { keepPublished }: { readonly keepPublished: boolean },
): Promise<number> {
  const rows = heldBy(token, acknowledgements);
  if (rows.length === 0) return 0;
  const sequences = rows.map(({ sequence }) => sequence);
  return onWriteConflictAgain(() =>
    keepPublished
      ? store.execute(ACKNOWLEDGE, [sequences, token, rows.map(({ messageId }) => messageId)])
      : store.execute(ACKNOWLEDGE_AND_DELETE, [sequences, token]),
  );
}
