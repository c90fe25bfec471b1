/**
 * The fence of every settling statement: `$1` are the sequences, `$2` is the claim token. What else is written of a row
 * comes in arrays beside `$1`, at its `PLACE` there. A join with those values would be planned for the one row that a
 * token is taken to have: a scan of the table, and of all values for each row found.
 */
export const HELD = `sequence = ANY ($1::bigint[]) AND claim_token = $2::uuid AND state = 'PENDING'`;
export const PLACE = 'array_position($1::bigint[], sequence)';

/**
 * Guards every settle: a missing token would match nothing, or, as SQL text put together carelessly, everything.
 *
 * @returns the rows in sequence order, the order in which every statement touches rows, so that settles cannot deadlock
 * @throws TypeError when the token or a sequence is missing
 */
export function heldBy<T extends { readonly sequence: bigint }>(token: string, rows: readonly T[]): T[] {
  if (typeof token !== 'string' || token === '') {
    throw new TypeError(`settle: expected the claim token, got ${JSON.stringify(token)}`);
  }
  if (rows.some(({ sequence }) => typeof sequence !== 'bigint')) {
    throw new TypeError('settle: expected a bigint sequence for each row');
  }
  return rows.toSorted((a, b) => Number(a.sequence - b.sequence));
}
