/** Something to send, with its size in bytes of UTF-8. */
export interface Sized {
  readonly bytes: number;
}

/** What one call may hold. */
export interface BatchLimits {
  readonly maxEntries: number;
  readonly maxBytes: number;
}

/**
 * Cuts entries into batches, in order: as many as fit both limits. An entry that is too large on its own goes to
 * `tooLarge` and costs its neighbours nothing.
 */
export function cutBatches<T extends Sized>(
  entries: readonly T[],
  { maxEntries, maxBytes }: BatchLimits,
): { batches: T[][]; tooLarge: T[] } {
  const batches: T[][] = [];
  const tooLarge: T[] = [];
  let batch: T[] = [];
  let bytes = 0;
  for (const entry of entries) {
    if (entry.bytes > maxBytes) {
      tooLarge.push(entry);
      continue;
    }
    if (batch.length === maxEntries || bytes + entry.bytes > maxBytes) {
      batches.push(batch);
      batch = [];
      bytes = 0;
    }
    batch.push(entry);
    bytes += entry.bytes;
  }
  if (batch.length > 0) batches.push(batch);
  return { batches, tooLarge };
}
