// Whatever is given to recordEvents, inside a transaction that has business of its own: it is recorded, or refused by a
// typed error before any SQL. The transaction commits in either case.

import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { EventInput } from '../functions/outbox/event.ts';
import { recordEvents } from '../functions/outbox/record.ts';
import { InvalidEventError } from '../functions/shared/errors.ts';
import { createDatabase, createPrisma } from './support/database.ts';
import { fuzzFor } from './support/fuzz.ts';
import { liveHeapMb } from './support/heap.ts';

/** Before and after the first look at the memory. */
const RUN_SECONDS = 1.5;

const nested = (depth: number, open: unknown): unknown => {
  let value: unknown = 1;
  for (let n = 0; n < depth; n += 1) value = open === '[' ? [value] : { a: value };
  return value;
};

const hostile: readonly unknown[] = [
  undefined,
  null,
  Number.NaN,
  -0,
  1e308,
  2 ** 53 + 1,
  10n,
  Symbol('s'),
  () => 1,
  new Date(Number.NaN),
  JSON.parse('{"__proto__":{"polluted":true}}'),
  { constructor: { prototype: { polluted: true } } },
  Object.create(null),
  { toJSON: () => 10n },
  { toJSON: () => Promise.reject(new Error('later')).catch(() => undefined) },
  {
    toJSON: () => {
      // oxlint-disable-next-line no-throw-literal -- whatever is thrown
      throw null;
    },
  },
  {
    get trap() {
      throw new Error('trapped');
    },
  },
  new Proxy(
    {},
    {
      ownKeys: () => {
        throw new Error('trapped');
      },
    },
  ),
];

const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 40 }),
  // Half characters too.
  fc.array(fc.nat(0xffff), { maxLength: 10 }).map((units) => String.fromCharCode(...units)),
  fc.constantFrom(
    '',
    '\u0000',
    '\ud800',
    '\uffff',
    '__proto__',
    'é'.repeat(600),
    'x'.repeat(3_000),
    "'; DROP TABLE orders; --",
  ),
);
const anything = fc.oneof(
  fc.constantFrom(...hostile),
  text,
  fc.anything({
    key: text,
    withBigInt: true,
    withMap: true,
    withSet: true,
    withNullPrototype: true,
    withTypedArray: true,
    withSparseArray: true,
    maxDepth: 4,
  }),
  fc
    .tuple(fc.integer({ min: 1, max: 12_000 }), fc.constantFrom('[', '{'))
    .map(([depth, open]) => nested(depth, open)),
  fc.integer({ min: 0, max: 20 }).map((n) => 'é'.repeat(2 ** n)),
);

/** Mostly right, so that much gets as far as SQL. */
const mostly = (right: unknown) =>
  fc.oneof({ weight: 20, arbitrary: fc.constant(right) }, { weight: 1, arbitrary: anything });
const event = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record(
      {
        type: mostly('order.placed'),
        source: mostly('/orders'),
        destinations: fc.oneof(
          { weight: 10, arbitrary: mostly(['stock']) },
          { weight: 1, arbitrary: fc.array(text, { maxLength: 3 }) },
        ),
        payload: fc.oneof(fc.jsonValue({ noUnicodeString: false }), anything),
        id: mostly(undefined),
        orderingKey: fc.oneof({ weight: 4, arbitrary: mostly('key') }, { weight: 1, arbitrary: text }),
        dueAt: mostly(undefined),
        delaySeconds: fc.oneof(mostly(1), fc.double({ min: 0, max: 4e8 })),
      },
      { requiredKeys: ['type', 'source', 'destinations', 'payload'] },
    ),
  },
  { weight: 1, arbitrary: anything },
);
const events = fc.oneof(
  { weight: 12, arbitrary: fc.array(event, { minLength: 1, maxLength: 3 }) },
  { weight: 1, arbitrary: anything },
);

test('no event poisons the transaction that records it', async () => {
  const db = await createDatabase();
  const prisma = createPrisma(db.url, { max: 1 });
  const seen = { recorded: 0, refused: 0 };
  let number = 0;
  const check = async (given: unknown): Promise<void> => {
    const order = `ORDER-${(number += 1)}`;
    let problem: unknown;
    await db.sql('TRUNCATE orders, outbox_event');
    await prisma.$transaction(async (tx) => {
      await recordEvents(tx, given as EventInput[]).catch((error: unknown) => (problem = error));
      await tx.$executeRaw`INSERT INTO orders (id, sku, quantity) VALUES (${order}, 'SKU-17', 1)`;
    });
    if (problem !== undefined) expect(problem).toBeInstanceOf(InvalidEventError);
    expect(await db.sql('SELECT id FROM orders')).toEqual([{ id: order }]);
    seen[problem === undefined ? 'recorded' : 'refused'] += 1;
  };
  const run = async () => {
    await fuzzFor(RUN_SECONDS, events, check);
    return liveHeapMb();
  };
  const warm = await run();
  expect((await run()) - warm).toBeLessThan(30);
  expect(Math.min(seen.recorded, seen.refused)).toBeGreaterThan(0);
  expect(({} as { polluted?: true }).polluted).toBeUndefined();
}, 120_000);
