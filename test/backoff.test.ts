import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { backoffSeconds, type Backoff } from '../functions/shared/backoff.ts';

const ALMOST_ONE = 1 - Number.EPSILON / 2;
const HIGHEST_ATTEMPTS = 2_147_483_647;
const YEAR_9999 = Date.UTC(9999, 0);

const attempts = fc.oneof(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: HIGHEST_ATTEMPTS }));
const random = fc.double({ min: 0, max: ALMOST_ONE, noNaN: true });
const backoff: fc.Arbitrary<Backoff> = fc
  .tuple(fc.integer({ min: 1, max: 3_600_000 }), fc.integer({ min: 0, max: 82_800_000 }))
  .map(([baseMs, moreMs]) => ({ baseSeconds: baseMs / 1_000, maxSeconds: (baseMs + moreMs) / 1_000 }));

describe('whatever the attempt, the settings and chance', () => {
  test('the wait is from one base to the maximum', () => {
    fc.assert(
      fc.property(attempts, backoff, random, (n, shape, chance) => {
        const seconds = backoffSeconds(n, shape, chance);
        expect(seconds).toBeGreaterThanOrEqual(shape.baseSeconds);
        expect(seconds).toBeLessThanOrEqual(shape.maxSeconds);
      }),
    );
  });

  test('a later attempt never waits less than an earlier one that drew the same chance', () => {
    fc.assert(
      fc.property(attempts, attempts, backoff, random, (a, b, shape, chance) => {
        const [earlier, later] = [Math.min(a, b), Math.max(a, b)];
        expect(backoffSeconds(later, shape, chance)).toBeGreaterThanOrEqual(
          backoffSeconds(earlier, shape, chance),
        );
      }),
    );
  });

  test('more chance is more wait: a crowd spreads over the whole range', () => {
    fc.assert(
      fc.property(attempts, backoff, random, random, (n, shape, a, b) => {
        const [less, more] = [Math.min(a, b), Math.max(a, b)];
        expect(backoffSeconds(n, shape, more)).toBeGreaterThanOrEqual(backoffSeconds(n, shape, less));
      }),
    );
  });
});

// Case A11: 2 ** 1100 is Infinity, and a timestamp of now plus that is an error for ever.
test.each([16, 64, 1_100])('after %i attempts the wait is the maximum and makes a valid timestamp', (n) => {
  const longest = backoffSeconds(n, { baseSeconds: 1, maxSeconds: 300 }, ALMOST_ONE);
  expect(longest).toBeGreaterThan(299);
  expect(longest).toBeLessThanOrEqual(300);
  expect(Date.now() + longest * 1_000).toBeLessThan(YEAR_9999);
});

test('it doubles until the maximum', () => {
  const ceilings = [1, 2, 3, 4, 5].map((n) =>
    Math.round(backoffSeconds(n, { baseSeconds: 1, maxSeconds: 10 }, ALMOST_ONE)),
  );
  expect(ceilings).toEqual([2, 4, 8, 10, 10]);
});

test('no retry is immediate, even when chance says 0', () => {
  expect(backoffSeconds(1, { baseSeconds: 0.5, maxSeconds: 300 }, 0)).toBe(0.5);
});
