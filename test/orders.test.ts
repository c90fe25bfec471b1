// The orders function: an order and its event exist together or not at all, and the request does not hang on the queue.

import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import type { handler as OrdersHandler } from '../functions/orders/handler.ts';
import { captureReports, type Reported } from './support/consumer.ts';
import { createDatabase, type TestDatabase } from './support/database.ts';
import * as knobs from './support/knobs.ts';
import * as sqs from './support/scripted-sqs.ts';
import { soon } from './support/wait.ts';

const ORDER = { orderId: 'ORDER-1', sku: 'SKU-17', quantity: 2 };

let db: TestDatabase;
let queues: sqs.ScriptedSqs;
let handler: typeof OrdersHandler;
let reports: Reported[];

beforeAll(async () => {
  db = await createDatabase();
  queues = await sqs.startScriptedSqs({ queues: { tick: {} } });
  vi.stubEnv('DATABASE_URL', db.url);
  vi.stubEnv('OUTBOX_TICK_QUEUE_URL', queues.queueUrl('tick'));
  for (const [key, value] of Object.entries(queues.env)) vi.stubEnv(key, value);
  ({ handler } = await import('../functions/orders/handler.ts'));
});

beforeEach(async () => {
  await db.sql('TRUNCATE orders, outbox_event');
  queues.on();
  queues.calls.length = 0;
  reports = captureReports();
});

/** A request with any body, as API Gateway hands it over. */
const request = (body: string | undefined, isBase64Encoded = false) =>
  ({ body, isBase64Encoded }) as APIGatewayProxyEventV2;

/** A payment or a shipment of an order. */
async function take(step: 'payment' | 'shipment', orderId = ORDER.orderId) {
  const routeKey = `POST /orders/{orderId}/${step}`;
  return read(await handler({ routeKey, pathParameters: { orderId } } as unknown as APIGatewayProxyEventV2));
}

async function post(order: object): Promise<{ status: number; body: Record<string, unknown> }> {
  return read(await handler(request(JSON.stringify(order))));
}

function read({ statusCode, body }: Awaited<ReturnType<typeof handler>>) {
  return { status: Number(statusCode), body: JSON.parse(body ?? '') as Record<string, unknown> };
}

const orders = () => db.sql('SELECT id, sku, quantity, note FROM orders ORDER BY id');
const events = () =>
  db.sql(
    `SELECT event_id::text AS id, source, destination, type, ordering_key AS "orderingKey",
            payload::text AS payload, state
       FROM outbox_event ORDER BY sequence`,
  );
const stepEvents = async () => (await events()).filter(({ type }) => type !== 'order.placed');
const statuses = () => db.sql('SELECT id, status FROM orders ORDER BY id');
const nudges = () => queues.sends().map(({ queue }) => queue);

describe('an order', () => {
  test('posted twice is one order, one event for each destination and one nudge: 201, then 200 with the same ids', async () => {
    const first = await post(ORDER);
    expect(first).toEqual({ status: 201, body: { orderId: 'ORDER-1', eventId: expect.any(String) } });
    expect(await post(ORDER)).toEqual({ status: 200, body: first.body });
    expect(await orders()).toEqual([{ id: 'ORDER-1', sku: 'SKU-17', quantity: 2, note: null }]);
    const event = {
      id: first.body['eventId'],
      source: '/orders',
      type: 'order.placed',
      orderingKey: 'ORDER-1',
      payload: JSON.stringify(ORDER),
      state: 'PENDING',
    };
    expect(await events()).toEqual([
      { ...event, destination: 'stock', orderingKey: null },
      { ...event, destination: 'history' },
    ]);
    expect(nudges()).toEqual(['tick']);
  });

  test('posted ten times at once is one order and one event', async () => {
    const answers = await Promise.all(Array.from({ length: 10 }, () => post(ORDER)));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(9);
    expect(new Set(answers.map(({ body }) => body['eventId'])).size).toBe(1);
    expect(await orders()).toHaveLength(1);
    expect(await events()).toHaveLength(2);
    expect(nudges()).toHaveLength(1);
  });

  test('posted again with other content stays as it was first', async () => {
    await post(ORDER);
    expect((await post({ ...ORDER, quantity: 9 })).status).toBe(200);
    expect(await orders()).toMatchObject([{ quantity: 2 }]);
    expect(await events()).toHaveLength(2);
  });

  test('posted again after its event was pruned is not recorded again', async () => {
    await post(ORDER);
    await db.sql('TRUNCATE outbox_event');
    expect((await post(ORDER)).status).toBe(200);
    expect(await events()).toEqual([]);
  });

  test('of another id has an event of its own', async () => {
    const ids = [await post(ORDER), await post({ ...ORDER, orderId: 'ORDER-2' })].map(
      ({ body }) => body['eventId'],
    );
    expect(new Set(ids).size).toBe(2);
    expect((await events()).map(({ id, destination }) => [id, destination])).toEqual(
      ids.flatMap((id) => ['stock', 'history'].map((destination) => [id, destination])),
    );
  });

  test('in base64, with every kind of character, arrives as it was sent', async () => {
    const order = { ...ORDER, sku: 'Söckchen 🧦', note: 'für "Zoë"\n\u2028 \u0007 \uFFFF' };
    const body = Buffer.from(JSON.stringify(order)).toString('base64');
    expect(read(await handler(request(body, true)))).toMatchObject({ status: 201 });
    expect(await orders()).toMatchObject([{ sku: order.sku, note: order.note }]);
    const [event] = await events();
    expect(JSON.parse(String(event?.['payload']))).toEqual(order);
  });
});

describe('a payment and a shipment', () => {
  test('are one event each, for the history alone, in the order’s own order, and one nudge each', async () => {
    await post(ORDER);
    const paid = await take('payment');
    const shipped = await take('shipment');
    for (const answer of [paid, shipped])
      expect(answer).toEqual({ status: 201, body: { orderId: 'ORDER-1', eventId: expect.any(String) } });
    expect(await statuses()).toEqual([{ id: 'ORDER-1', status: 'shipped' }]);
    const step = {
      source: '/orders',
      destination: 'history',
      orderingKey: 'ORDER-1',
      payload: '{"orderId":"ORDER-1"}',
      state: 'PENDING',
    };
    expect(await stepEvents()).toEqual([
      { ...step, id: paid.body['eventId'], type: 'order.paid' },
      { ...step, id: shipped.body['eventId'], type: 'order.shipped' },
    ]);
    expect(nudges()).toEqual(['tick', 'tick', 'tick']);
  });

  test('posted again change nothing and nudge nobody: 200 with the same ids, however far the order is', async () => {
    await post(ORDER);
    const paid = await take('payment');
    expect(await take('payment')).toEqual({ status: 200, body: paid.body });
    const shipped = await take('shipment');
    expect(await take('shipment')).toEqual({ status: 200, body: shipped.body });
    expect(await take('payment')).toEqual({ status: 200, body: paid.body });
    expect(await statuses()).toEqual([{ id: 'ORDER-1', status: 'shipped' }]);
    expect(await stepEvents()).toHaveLength(2);
    expect(nudges()).toHaveLength(3);
  });

  test('posted ten times at once are one event', async () => {
    await post(ORDER);
    const answers = await Promise.all(Array.from({ length: 10 }, () => take('payment')));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(9);
    expect(new Set(answers.map(({ body }) => body['eventId'])).size).toBe(1);
    expect(await stepEvents()).toHaveLength(1);
  });

  test('posted again after its event was pruned is not recorded again', async () => {
    await post(ORDER);
    await take('payment');
    await db.sql('TRUNCATE outbox_event');
    expect((await take('payment')).status).toBe(200);
    expect(await events()).toEqual([]);
  });

  test('out of turn are refused: 409 says so, and nothing is written', async () => {
    await post(ORDER);
    expect(await take('shipment')).toEqual({
      status: 409,
      body: { error: 'order ORDER-1 cannot be shipped now' },
    });
    expect(await statuses()).toEqual([{ id: 'ORDER-1', status: 'placed' }]);
    expect(await stepEvents()).toEqual([]);
    expect(nudges()).toHaveLength(1);
  });

  test.each(['payment', 'shipment'] as const)('%s of an order that nobody placed: 409', async (step) => {
    expect((await take(step, 'ORDER-9')).status).toBe(409);
    expect(await orders()).toEqual([]);
    expect(await events()).toEqual([]);
    expect(nudges()).toEqual([]);
  });

  test.each(['a\u0000', '', 'x'.repeat(101)])(
    'of %j, which can be no order id, are refused: 400 names the field',
    async (id) => {
      expect(await take('payment', id)).toMatchObject({ status: 400, body: { field: 'orderId' } });
    },
  );

  test('touch their own order alone, whatever characters its id has', async () => {
    const orderId = 'Bestellung №7 ✓';
    await post(ORDER);
    await post({ ...ORDER, orderId });
    expect((await take('payment', orderId)).status).toBe(201);
    expect(await statuses()).toEqual([
      { id: orderId, status: 'paid' },
      { id: 'ORDER-1', status: 'placed' },
    ]);
    expect(await stepEvents()).toMatchObject([
      { orderingKey: orderId, payload: JSON.stringify({ orderId }) },
    ]);
  });
});

describe('a request that cannot be an order', () => {
  test.each<[string, string | undefined, string]>([
    ['no body', undefined, 'body'],
    ['a body that is not JSON', 'orderId=1', 'body'],
    ['null', 'null', 'body'],
    ['a list', '[]', 'body'],
    ['no order id', JSON.stringify({ ...ORDER, orderId: undefined }), 'orderId'],
    ['an empty order id', JSON.stringify({ ...ORDER, orderId: '' }), 'orderId'],
    ['no SKU', JSON.stringify({ ...ORDER, sku: undefined }), 'sku'],
    ['a quantity of none', JSON.stringify({ ...ORDER, quantity: 0 }), 'quantity'],
    ['half a unit', JSON.stringify({ ...ORDER, quantity: 0.5 }), 'quantity'],
    ['a quantity beyond all numbers', '{"orderId":"1","sku":"2","quantity":1e999}', 'quantity'],
    ['a quantity in words', JSON.stringify({ ...ORDER, quantity: '2' }), 'quantity'],
    ['a note of a novel', JSON.stringify({ ...ORDER, note: 'x'.repeat(2_001) }), 'note'],
    // D9: PostgreSQL has no NUL, and UTF-8 has no half characters.
    ['a NUL in the order id', JSON.stringify({ ...ORDER, orderId: 'a\u0000' }), 'orderId'],
    ['a NUL in the SKU', JSON.stringify({ ...ORDER, sku: 'a\u0000' }), 'sku'],
    ['a NUL in the note', JSON.stringify({ ...ORDER, note: 'a\u0000' }), 'note'],
    ['half a character in the order id', JSON.stringify({ ...ORDER, orderId: '\ud83d' }), 'orderId'],
  ])('%s: 400 names the field, and nothing is written', async (_, body, field) => {
    expect(read(await handler(request(body)))).toEqual({
      status: 400,
      body: { error: expect.any(String), field },
    });
    expect(await orders()).toEqual([]);
    expect(await events()).toEqual([]);
    expect(nudges()).toEqual([]);
  });
});

describe('the nudge', () => {
  test('is sent after the commit, when the relay can see the event', async () => {
    const seen: unknown[] = [];
    queues.on(() => async (exchange) => {
      seen.push(await orders(), await events());
      await sqs.ok()(exchange);
    });
    await post(ORDER);
    expect(seen).toMatchObject([
      [{ id: 'ORDER-1' }],
      [
        { type: 'order.placed', destination: 'stock' },
        { type: 'order.placed', destination: 'history' },
      ],
    ]);
  });

  test.each<[string, sqs.Answer]>([
    ['is down', sqs.httpError(503)],
    ['is gone', sqs.queueDoesNotExist()],
    ['resets the connection', sqs.reset()],
    ['never answers', sqs.stall()],
  ])('that finds a tick queue which %s does not fail the request', async (_, answer) => {
    queues.on(() => answer);
    expect(await soon(post(ORDER))).toMatchObject({ status: 201 });
    expect(await orders()).toHaveLength(1);
    expect(await events()).toHaveLength(2);
    expect(reports).toMatchObject([{ event: 'nudge.lost' }]);
  });
});

describe('when it cannot be written', () => {
  test.each<[string, Parameters<typeof knobs.raiseOn>[1]]>([
    ['the event', { table: 'outbox_event', sqlState: '53100' }],
    ['the order', { table: 'orders', sqlState: '53100' }],
    ['the commit', { table: 'outbox_event', sqlState: '40001', at: 'commit' }],
  ])('%s: the request fails, neither order nor event exists, nobody is nudged', async (_, failure) => {
    const raised = await knobs.raiseOn(db, failure);
    await expect(post(ORDER)).rejects.toThrow();
    expect(await raised()).toBe(1);
    expect(await orders()).toEqual([]);
    expect(await events()).toEqual([]);
    expect(nudges()).toEqual([]);
    expect((await post(ORDER)).status).toBe(201);
    expect(await events()).toHaveLength(2);
  });

  test('the event of a payment: the order stays unpaid, and can be paid later', async () => {
    await post(ORDER);
    const raised = await knobs.raiseOn(db, { table: 'outbox_event', sqlState: '53100' });
    await expect(take('payment')).rejects.toThrow();
    expect(await raised()).toBe(1);
    expect(await statuses()).toEqual([{ id: 'ORDER-1', status: 'placed' }]);
    expect(await stepEvents()).toEqual([]);
    expect((await take('payment')).status).toBe(201);
  });
});
