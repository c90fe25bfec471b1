// The demo's reconciliation is worth what it finds: each kind of damage is found by its question, and a sound
// database by none.

import { randomUUID } from 'node:crypto';
import { beforeEach, expect, test } from 'vitest';
import type { DeadLetter, DestinationName } from '../infra/local/demo/destinations.ts';
import { reconcile, type Fed } from '../infra/local/demo/reconcile.ts';
import type { Step } from './data/generate.ts';
import { createDatabase, type TestDatabase } from './support/database.ts';

let db: TestDatabase;
let fed: Fed;
let deadLetters: DeadLetter[];

interface Placed {
  orderId: string;
  sku: string;
  quantity: number;
  note?: string;
  /** What became of it at the stock. */
  end: 'applied' | 'dead' | 'parked';
  steps?: Step[];
}

/**
 * Three orders of the scarce SKU, of which two fit; one of another, with a difficult note; one that was parked. One was
 * paid and shipped, one paid.
 */
const PLACED: Placed[] = [
  { orderId: 'a', sku: 'SCARCE', quantity: 2, end: 'applied', steps: ['paid', 'shipped'] },
  { orderId: 'b', sku: 'SCARCE', quantity: 2, end: 'applied' },
  { orderId: 'c', sku: 'SCARCE', quantity: 2, end: 'dead' },
  {
    orderId: 'd ✓',
    sku: 'PLENTY',
    quantity: 3,
    note: '😀 \uFFFE\uFFFF \u0007 \u2028',
    end: 'applied',
    steps: ['paid'],
  },
  { orderId: 'e', sku: 'OTHER', quantity: 1, end: 'parked' },
];

beforeEach(async () => {
  db = await createDatabase();
  fed = {
    orders: new Map(),
    steps: { paid: new Set(), shipped: new Set() },
    stock: [
      { sku: 'SCARCE', available: 5 },
      { sku: 'PLENTY', available: 10 },
      { sku: 'OTHER', available: 10 },
    ],
  };
  deadLetters = [];
  await db.sql("INSERT INTO stock_balance VALUES ('SCARCE', 1), ('PLENTY', 7), ('OTHER', 10)");
  for (const order of PLACED) await place(order);
});

async function place({ end, steps = [], ...order }: Placed): Promise<void> {
  const { orderId, sku, quantity, note = null } = order;
  fed.orders.set(orderId, order);
  for (const step of steps) fed.steps[step].add(orderId);
  await db.sql('INSERT INTO orders (id, sku, quantity, note, status) VALUES ($1, $2, $3, $4, $5)', [
    orderId,
    sku,
    quantity,
    note,
    steps.at(-1) ?? 'placed',
  ]);
  const placed = { id: randomUUID(), type: 'order.placed', orderId, payload: order };
  await record(placed, 'stock', end);
  await record(placed, 'history');
  for (const step of steps)
    await record({ id: randomUUID(), type: `order.${step}`, orderId, payload: { orderId } }, 'history');
  for (const step of ['placed', ...steps])
    await db.sql('INSERT INTO order_history (order_id, step) VALUES ($1, $2)', [orderId, step]);
}

interface Recorded {
  id: string;
  type: string;
  orderId: string;
  payload: object;
}

/** An event's row for one destination, and what became of it. */
async function record(
  { id, type, orderId, payload }: Recorded,
  destination: DestinationName,
  end: Placed['end'] = 'applied',
): Promise<void> {
  const parked = end === 'parked';
  await db.sql(
    `INSERT INTO outbox_event (event_id, destination, source, type, ordering_key, payload, state, published_at, parked_at, park_reason)
     VALUES ($1, $2, '/orders', $3, $4, $5::json, $6, $7, $8, $9)`,
    [
      id,
      destination,
      type,
      destination === 'history' ? orderId : null,
      JSON.stringify(payload),
      parked ? 'PARKED' : 'PUBLISHED',
      parked ? null : new Date(),
      parked ? new Date() : null,
      parked ? 'TooLarge: on purpose' : null,
    ],
  );
  if (end === 'applied')
    await db.sql(`INSERT INTO applied_event (consumer, source, event_id) VALUES ($1, '/orders', $2)`, [
      destination,
      id,
    ]);
  if (end === 'dead') deadLetters.push(deadLetter(id, 'Shortage: on purpose'));
}

const deadLetter = (id: string, reason?: string): DeadLetter => ({
  destination: 'stock',
  message: {
    Body: JSON.stringify({ id, source: '/orders' }),
    ...(reason !== undefined && {
      MessageAttributes: { 'outbox-reason': { DataType: 'String', StringValue: reason } },
    }),
  },
});

const eventOf = `(SELECT event_id FROM outbox_event WHERE destination = 'stock' AND payload ->> 'orderId' = `;

/** The questions that were answered with no. */
async function objections(): Promise<string[]> {
  const checks = await reconcile(db.url, fed, deadLetters);
  return checks.filter(({ differing }) => differing.length > 0).map(({ question }) => question);
}

test('a sound database has nothing that differs, also when a dead letter is there twice', async () => {
  deadLetters.push(...deadLetters);
  expect(await objections()).toEqual([]);
});

test.each([
  ['an order vanished', `DELETE FROM orders WHERE id = 'e'`, /stored as it was posted/],
  [
    'an order appeared',
    `INSERT INTO orders (id, sku, quantity) VALUES ('x', 'OTHER', 1)`,
    /stored as it was posted/,
  ],
  [
    'a note lost a character',
    `UPDATE orders SET note = left(note, 3) WHERE note IS NOT NULL`,
    /stored as it was posted/,
  ],
  [
    'a payment was forgotten',
    `UPDATE orders SET status = 'placed' WHERE id = 'd ✓'`,
    /stored as it was posted/,
  ],
  ['an event vanished', `DELETE FROM outbox_event WHERE state = 'PARKED'`, /exactly one event for each/],
  [
    'an event went to one of its destinations only',
    `DELETE FROM outbox_event WHERE destination = 'history' AND payload ->> 'orderId' = 'b'`,
    /exactly one event for each/,
  ],
  [
    'an event went where it should not go',
    `INSERT INTO outbox_event (event_id, destination, source, type, ordering_key, payload, state, published_at)
     SELECT event_id, 'stock', source, type, ordering_key, payload, 'PUBLISHED', now() FROM outbox_event WHERE type = 'order.shipped'`,
    /exactly one event for each/,
  ],
  [
    'a step has no event',
    `DELETE FROM outbox_event WHERE type = 'order.shipped'`,
    /exactly one event for each/,
  ],
  [
    'an order has two events',
    `INSERT INTO outbox_event (event_id, destination, source, type, ordering_key, payload, state, published_at)
     SELECT gen_random_uuid(), destination, source, type, ordering_key, payload, 'PUBLISHED', now() FROM outbox_event WHERE state = 'PUBLISHED' LIMIT 1`,
    /exactly one event for each/,
  ],
  [
    'the two rows of an event have two ids',
    `UPDATE outbox_event SET event_id = gen_random_uuid() WHERE destination = 'history' AND payload ->> 'orderId' = 'b'`,
    /one id for all/,
  ],
  [
    'an event says another quantity',
    `UPDATE outbox_event SET payload = '{"orderId":"a","sku":"SCARCE","quantity":3}' WHERE type = 'order.placed' AND payload ->> 'orderId' = 'a'`,
    /its step’s data/,
  ],
  [
    'an event has another ordering key',
    `UPDATE outbox_event SET ordering_key = 'b' WHERE type = 'order.shipped'`,
    /its order for ordering key/,
  ],
  [
    'an event is still pending',
    `UPDATE outbox_event SET state = 'PENDING', published_at = NULL WHERE payload ->> 'orderId' = 'a'`,
    /published or parked/,
  ],
  [
    'a published event was never applied',
    `DELETE FROM applied_event WHERE consumer = 'stock' AND event_id = ${eventOf}'d ✓')`,
    /applied once/,
  ],
  [
    'an event was applied by the consumer of another destination only',
    `DELETE FROM applied_event WHERE consumer = 'history' AND event_id = ${eventOf}'d ✓')`,
    /applied once/,
  ],
  [
    'an event was applied that nobody recorded',
    `INSERT INTO applied_event (consumer, source, event_id) VALUES ('stock', '/orders', gen_random_uuid())`,
    /not recorded/,
  ],
  [
    'an event was applied by a consumer it was not recorded for',
    `INSERT INTO applied_event (consumer, source, event_id) SELECT 'stock', source, event_id FROM outbox_event WHERE type = 'order.paid'`,
    /not recorded/,
  ],
  [
    'an effect was applied twice',
    `UPDATE stock_balance SET available = 4 WHERE sku = 'PLENTY'`,
    /stock balance/,
  ],
  [
    'an effect was not applied',
    `UPDATE stock_balance SET available = 10 WHERE sku = 'PLENTY'`,
    /stock balance/,
  ],
  ['a balance vanished', `DELETE FROM stock_balance WHERE sku = 'PLENTY'`, /stock balance/],
  [
    'a history has its steps in the wrong order',
    `UPDATE order_history SET step = CASE step WHEN 'paid' THEN 'shipped' ELSE 'paid' END WHERE order_id = 'a' AND step <> 'placed'`,
    /history is in order/,
  ],
  [
    'a history lost its first step',
    `DELETE FROM order_history WHERE order_id = 'a' AND step = 'placed'`,
    /in order/,
  ],
  [
    'a history lost its last step',
    `DELETE FROM order_history WHERE step = 'shipped'`,
    /in its history exactly once/,
  ],
  [
    'a history has a step twice',
    `INSERT INTO order_history (order_id, step) VALUES ('b', 'placed')`,
    /in its history exactly once/,
  ],
  [
    'a history has a step that was never taken',
    `INSERT INTO order_history (order_id, step) VALUES ('b', 'paid')`,
    /in its history exactly once/,
  ],
  [
    'the ledger of history has a gap',
    `DELETE FROM applied_event WHERE consumer = 'history' AND event_id = ${eventOf}'b')`,
    /ledger of history/,
  ],
])('%s', async (_damage, statement, question) => {
  await db.sql(statement);
  expect(await objections()).toContainEqual(expect.stringMatching(question));
});

test('a published event is in the dead-letter queue without a reason, or not at all', async () => {
  const [dead] = deadLetters.splice(0);
  expect(await objections()).toContainEqual(expect.stringMatching(/applied once/));
  const { id } = JSON.parse(dead?.message.Body ?? '') as { id: string };
  deadLetters.push(deadLetter(id));
  expect(await objections()).toContainEqual(expect.stringMatching(/applied once/));
});

test('an event was applied and is in the dead-letter queue', async () => {
  const [applied] = await db.sql<{ event_id: string }>(
    `SELECT event_id::text FROM applied_event WHERE consumer = 'stock' LIMIT 1`,
  );
  deadLetters.push(deadLetter(applied?.event_id ?? '', 'Shortage: but it was applied'));
  expect(await objections()).toContainEqual(expect.stringMatching(/applied once/));
});

test('an order was refused although the stock was enough', async () => {
  await place({ orderId: 'f', sku: 'OTHER', quantity: 1, end: 'dead' });
  const questions = await objections();
  expect(questions).toContainEqual(expect.stringMatching(/would still fit/));
});
