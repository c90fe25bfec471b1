import fc from 'fast-check';

/** Runs at a time; so many there are in any case, however slow the machine is. */
const RUNS = 4;

/** Checks a property with ever new values for so many seconds. A failure is shrunk and says its seed. */
export async function fuzzFor<T>(
  seconds: number,
  values: fc.Arbitrary<T>,
  check: (value: T) => Promise<void>,
): Promise<void> {
  const end = performance.now() + seconds * 1_000;
  do await fc.assert(fc.asyncProperty(values, check), { numRuns: RUNS });
  while (performance.now() < end);
}
