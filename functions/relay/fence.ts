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
