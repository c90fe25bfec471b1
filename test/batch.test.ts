import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { cutBatches, type BatchLimits } from '../functions/relay/batch.ts';

const sized = (...bytes: number[]) => bytes.map((size, id) => ({ id, bytes: size }));
const idsOf = (batches: { id: number }[][]) => batches.map((batch) => batch.map(({ id }) => id));
const bytesOf = (batch: { bytes: number }[]) => batch.reduce((sum, { bytes }) => sum + bytes, 0);

/** Small limits, so that both are met often; sizes on both sides of the byte limit. */
const situation = fc
  .record({ maxEntries: fc.integer({ min: 1, max: 10 }), maxBytes: fc.integer({ min: 1, max: 60 }) })
  .chain((limits) =>
    fc.record({
      limits: fc.constant<BatchLimits>(limits),
      entries: fc
        .array(fc.integer({ min: 0, max: limits.maxBytes + 3 }), { maxLength: 60 })
        .map((sizes) => sized(...sizes)),
    }),
  );

describe('whatever the entries and the limits', () => {
  test('no call is above either limit, and none is empty', () => {
    fc.assert(
      fc.property(situation, ({ entries, limits }) => {
        for (const batch of cutBatches(entries, limits).batches) {
          expect(batch.length).toBeGreaterThan(0);
          expect(batch.length).toBeLessThanOrEqual(limits.maxEntries);
          expect(bytesOf(batch)).toBeLessThanOrEqual(limits.maxBytes);
        }
      }),
    );
  });

  test('nothing is lost, invented, sent twice or overtaken', () => {
    fc.assert(
      fc.property(situation, ({ entries, limits }) => {
        const { batches, tooLarge } = cutBatches(entries, limits);
        const fits = ({ bytes }: { bytes: number }) => bytes <= limits.maxBytes;
        expect(batches.flat()).toEqual(entries.filter(fits));
        expect(tooLarge).toEqual(entries.filter((entry) => !fits(entry)));
      }),
    );
  });

  test('a call is closed only when the next entry does not fit into it', () => {
    fc.assert(
      fc.property(situation, ({ entries, limits }) => {
        const { batches } = cutBatches(entries, limits);
        for (const [index, batch] of batches.slice(0, -1).entries()) {
          const next = batches[index + 1]?.[0]?.bytes ?? 0;
          const isFull = batch.length === limits.maxEntries || bytesOf(batch) + next > limits.maxBytes;
          expect(isFull).toBe(true);
        }
      }),
    );
  });
});

// Case B3.
test('ten messages of 110 KiB are two calls', () => {
  const entries = sized(...Array.from({ length: 10 }, () => 110 * 1_024));
  const { batches } = cutBatches(entries, { maxEntries: 10, maxBytes: 1_048_576 });
  expect(batches.map((batch) => batch.length)).toEqual([9, 1]);
});

// Case B3.
test('exactly at the limit fits, one byte more is too large and costs its neighbours nothing', () => {
  const { batches, tooLarge } = cutBatches(sized(1, 100, 101, 2), { maxEntries: 10, maxBytes: 100 });
  expect(idsOf(batches)).toEqual([[0], [1], [3]]);
  expect(tooLarge.map(({ id }) => id)).toEqual([2]);
});

test('no entries are no calls', () => {
  expect(cutBatches([], { maxEntries: 10, maxBytes: 100 })).toEqual({ batches: [], tooLarge: [] });
});
