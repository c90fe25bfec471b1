// One recorded event for several destinations: one row each, and none of them knows of the others.

import { randomUUID } from 'node:crypto';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { defineEvents, type EventInput } from '../functions/outbox/event.ts';
import { replayParked } from '../functions/outbox/operate.ts';
import { recorder, recordEvents } from '../functions/outbox/record.ts';
import type { RelayConfig } from '../functions/relay/config.ts';
import type { TickCounts } from '../functions/relay/counts.ts';
import { tick } from '../functions/relay/tick.ts';
import { InvalidEventError } from '../functions/shared/errors.ts';
import { storeOf, type TransactionClient } from '../functions/shared/store.ts';
import type { PrismaClient } from '../prisma/client/client.ts';
import { createDatabase, createPrisma, type TestDatabase } from './support/database.ts';
import {
  claimSome,
  destinationsOf,
  endBackoffs,
  idOfBody,
  outboxRows,
  relayParts,
  stateCounts,
  storedIds,
} from './support/relay.ts';
import { fail, startScriptedSqs, throttled, type ScriptedSqs } from './support/scripted-sqs.ts';

const BOTH = ['stock', 'billing'];

let db: TestDatabase;
let prisma: PrismaClient;
let sqs: ScriptedSqs;

beforeAll(async () => {
  db = await createDatabase();
  prisma = createPrisma(db.url, { max: 4 });
});
beforeEach(async () => {
  await db.sql('TRUNCATE outbox_event RESTART IDENTITY');
  sqs = await startScriptedSqs({ queues: { stock: {}, billing: {} } });
});

const record = (...events: Partial<EventInput>[]): Promise<string[]> =>
  prisma.$transaction((tx) =>
    recordEvents(
      tx,
      events.map((event) => ({
        type: 'order.placed',
        source: '/orders',
        destinations: BOTH,
        payload: {},
        ...event,
      })),
    ),
  );

const tickOnce = (settings: Partial<RelayConfig> = {}): Promise<TickCounts> =>
  tick(
    relayParts(prisma, sqs, {
      destinations: destinationsOf(sqs, ...BOTH),
      backoffBaseSeconds: 60,
      ...settings,
    }),
    () => 20_000,
  );

const rowsTo = async (name: string) =>
  (await outboxRows(db)).filter(({ destination }) => destination === name);

/** Destination and type of each row, in order of sequence. */
const routed = async () =>
  (await db.sql('SELECT type, destination FROM outbox_event ORDER BY sequence')).map(
    ({ type, destination }) => `${String(type)} → ${String(destination)}`,
  );

describe('each destination has a row, a claim and an outcome of its own', () => {
  test('the same event arrives at both, under the same id, in the order recorded', async () => {
    const ids = await record({ payload: { n: 1 } }, { payload: { n: 2 } });
    expect(ids).toHaveLength(2);
    expect(await outboxRows(db)).toMatchObject([
      { eventId: ids[0], destination: 'stock' },
      { eventId: ids[0], destination: 'billing' },
      { eventId: ids[1], destination: 'stock' },
      { eventId: ids[1], destination: 'billing' },
    ]);
    expect(await tickOnce()).toMatchObject({ acknowledged: 4 });
    const bodies = BOTH.map((queue) => sqs.stored(queue).map(({ body }) => body));
    expect(bodies[0]?.map(idOfBody)).toEqual(ids);
    expect(bodies[0]?.map((body) => ({ ...Object(JSON.parse(body)), time: '' }))).toEqual(
      bodies[1]?.map((body) => ({ ...Object(JSON.parse(body)), time: '' })),
    );
    const messageIds = BOTH.flatMap((queue) => sqs.stored(queue).map(({ messageId }) => messageId));
    const acknowledged = (await outboxRows(db)).map(({ messageId }) => String(messageId));
    expect(acknowledged.toSorted()).toEqual(messageIds.toSorted());
  });

  test('one that is down does not stop the other, and misses nothing', async () => {
    const ids = await record(...Array.from({ length: 15 }, () => ({})));
    sqs.on(({ queue }) => (queue === 'billing' ? throttled() : undefined));
    expect(await tickOnce()).toMatchObject({ published: 15, parked: 0 });
    expect(storedIds(sqs, 'stock').toSorted()).toEqual(ids.toSorted());
    expect(await rowsTo('billing')).toMatchObject(
      ids.map((eventId) => ({ eventId, state: 'PENDING', attempts: 0 })),
    );

    sqs.on();
    await endBackoffs(db);
    await tickOnce();
    expect(storedIds(sqs, 'billing').toSorted()).toEqual(ids.toSorted());
    expect(sqs.stored('stock')).toHaveLength(15);
    expect(await stateCounts(db)).toEqual({ PUBLISHED: 30 });
  });

  test('one that refuses the event parks its own row only, and only that is replayed', async () => {
    const [id = ''] = await record({});
    sqs.on(({ queue }) =>
      queue === 'billing' ? fail({ 0: { code: 'Poison', senderFault: true } }) : undefined,
    );
    await tickOnce();
    expect(await outboxRows(db)).toMatchObject([
      { destination: 'stock', state: 'PUBLISHED', parkReason: null },
      { destination: 'billing', state: 'PARKED', parkReason: 'Poison: Poison by script' },
    ]);

    sqs.on();
    expect(await replayParked(storeOf(prisma), { eventId: id })).toBe(1);
    await tickOnce();
    expect([storedIds(sqs, 'stock'), storedIds(sqs, 'billing')]).toEqual([[id], [id]]);
  });

  test('a claim on one row leaves the other free', async () => {
    const [id] = await record({});
    const { events } = await claimSome(storeOf(prisma), { limit: 1 });
    expect(events).toMatchObject([{ destination: 'stock' }]);
    expect(await tickOnce()).toMatchObject({ claimed: 1, acknowledged: 1 });
    expect([storedIds(sqs, 'stock'), storedIds(sqs, 'billing')]).toEqual([[], [id]]);
  });
});

/** Everything there is, and when each row was last written. */
const whole = () => db.sql('SELECT *, payload::text AS text, xmin::text FROM outbox_event ORDER BY sequence');

describe('recording', () => {
  test('a destination named twice in one event is one row', async () => {
    await record({ destinations: ['stock', 'billing', 'stock'] });
    expect(await routed()).toEqual(['order.placed → stock', 'order.placed → billing']);
    await tickOnce();
    expect([sqs.stored('stock').length, sqs.stored('billing').length]).toEqual([1, 1]);
  });

  test('again, under the same id, changes nothing: not what waits, and not what was sent', async () => {
    const id = randomUUID();
    expect(await record({ id, payload: { first: true } })).toEqual([id]);
    const waiting = await whole();
    expect(await record({ id: id.toUpperCase(), payload: { first: false } })).toEqual([id]);
    expect(await whole()).toEqual(waiting);

    await tickOnce();
    const sent = await whole();
    expect(await record({ id }, { id })).toEqual([id, id]);
    expect(await whole()).toEqual(sent);
    expect(await tickOnce()).toMatchObject({ claimed: 0 });
  });

  test('again, with one destination more, adds that one', async () => {
    const id = randomUUID();
    await record({ id, destinations: ['stock'] });
    await tickOnce();
    await record({ id });
    await tickOnce();
    expect([storedIds(sqs, 'stock'), storedIds(sqs, 'billing')]).toEqual([[id], [id]]);
  });

  test.each([[[]], [undefined], ['stock'], [['']], [['a b']], [['stock', null]]])(
    'for %j is refused before any SQL',
    async (destinations) => {
      await expect(record({ destinations: destinations as string[] })).rejects.toThrow(
        /^events\[0\]\.destinations: expected /,
      );
    },
  );
});

describe('a recorder', () => {
  const events = defineEvents({
    'order.placed': z.object({ orderId: z.string() }),
    'order.paid': z.object({ orderId: z.string() }),
    'order.shipped': z.object({ orderId: z.string() }),
  });
  const payload = { orderId: 'ORDER-7' };
  const recordRouted = recorder(events, {
    source: '/orders',
    routes: { 'order.placed': ['stock', 'billing'], 'order.paid': ['billing'] },
    destinations: ['stock', 'billing', 'mail'],
  });
  type Input = Parameters<typeof recordRouted>[1][number];
  const recordBy = (recordWith: typeof recordRouted, ...inputs: Input[]) =>
    prisma.$transaction((tx: TransactionClient) => recordWith(tx, inputs));

  test('sends each type where its route says', async () => {
    await recordBy(recordRouted, { type: 'order.placed', payload }, { type: 'order.paid', payload });
    expect(await routed()).toEqual([
      'order.placed → stock',
      'order.placed → billing',
      'order.paid → billing',
    ]);
  });

  test('lets an event say otherwise', async () => {
    await recordBy(
      recordRouted,
      { type: 'order.placed', payload, destinations: ['mail'] },
      { type: 'order.placed', payload },
      { type: 'order.shipped', payload, destinations: ['mail', 'stock'] },
    );
    expect(await routed()).toEqual([
      'order.placed → mail',
      'order.placed → stock',
      'order.placed → billing',
      'order.shipped → mail',
      'order.shipped → stock',
    ]);
  });

  /** What recording was refused with; nothing of the transaction is there, and it was not poisoned before. */
  async function refusal(recordWith: typeof recordRouted, ...inputs: Input[]): Promise<unknown> {
    const error = await prisma.$transaction(async (tx: TransactionClient) => {
      const thrown = await recordWith(tx, inputs).catch((refused: unknown) => refused);
      await recordEvents(tx, [{ type: 'after', source: '/test', destinations: ['stock'], payload: 1 }]);
      return thrown;
    });
    expect(await routed()).toEqual(['after → stock']);
    expect(error).toBeInstanceOf(InvalidEventError);
    return error;
  }

  test('refuses a destination that there is not, and names it and those there are', async () => {
    const stray: Input = { type: 'order.placed', payload, destinations: ['stock', 'biling'] };
    expect(await refusal(recordRouted, { type: 'order.paid', payload }, stray)).toMatchObject({
      field: 'events[1].destinations',
      message: 'events[1].destinations: no destination "biling"; expected some of stock, billing, mail',
    });
  });

  test('is not made with a misspelt route', () => {
    expect(() =>
      recorder(events, {
        routes: { 'order.paid': ['stock'], 'order.placed': ['stok'] },
        destinations: ['stock'],
      }),
    ).toThrow(new TypeError('recorder: a route leads to "stok"; expected some of stock'));
  });

  test('without a list of destinations knows those of its routes', async () => {
    const routes = { 'order.placed': ['stock'], 'order.paid': ['billing'] };
    const known = recorder(events, { source: '/orders', routes });
    await recordBy(known, { type: 'order.shipped', payload, destinations: ['billing'] });
    expect(await routed()).toEqual(['order.shipped → billing']);
    await db.sql('TRUNCATE outbox_event');
    const stray: Input = { type: 'order.placed', payload, destinations: ['mail'] };
    expect(await refusal(known, stray)).toMatchObject({ message: expect.stringContaining('"mail"') });
  });

  test('refuses a type that goes nowhere', async () => {
    expect(await refusal(recordRouted, { type: 'order.shipped', payload })).toMatchObject({
      field: 'events[0].destinations',
    });
  });
});

// recordEvents knows no destinations, and a relay may be deployed with fewer than there were.
test.each([null, 'ORDER-7'])(
  'an event for a destination that the relay does not know waits, and says why (ordering key %j)',
  async (orderingKey) => {
    await record({ destinations: ['gone'], ...(orderingKey === null ? {} : { orderingKey }) });
    await record({ destinations: ['stock'] });
    await tickOnce();
    expect(await rowsTo('stock')).toMatchObject([{ state: 'PUBLISHED' }]);
    expect(await rowsTo('gone')).toMatchObject([{ state: 'PENDING', attempts: 0, claimToken: null }]);
    expect((await rowsTo('gone'))[0]?.lastError).toMatch(/^UnknownDestination: gone/);
  },
);
