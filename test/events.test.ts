// One declaration of event types for those who record and those who apply: what the compiler refuses, and any validator.

import type { StandardSchemaV1 } from '@standard-schema/spec';
import { beforeAll, describe, expect, expectTypeOf, test } from 'vitest';
import { z } from 'zod';
import type { PrismaClient } from '../prisma/client/client.ts';
import { consumer, type ConsumerOptions } from '../functions/consumer/consumer.ts';
import { defineEvents, type EventTypes } from '../functions/outbox/event.ts';
import { recorder, recordEvents } from '../functions/outbox/record.ts';
import { captureReports, orderRecord, startConsumer, type Tx } from './support/consumer.ts';
import { createDatabase, createPrisma, type TestDatabase } from './support/database.ts';
import { startScriptedSqs } from './support/scripted-sqs.ts';

/** Written by hand: a weight in kilograms, given as text, used as a number. */
const weight: StandardSchemaV1<{ kg: string }, { kg: number }> = {
  '~standard': {
    version: 1,
    vendor: 'by-hand',
    validate: (value) => {
      const kg = Number((value as { kg?: unknown } | null)?.kg);
      return kg > 0 ? { value: { kg } } : { issues: [{ message: 'weighs nothing', path: [{ key: 'kg' }] }] };
    },
  },
};

const types = defineEvents({
  'order.placed': z.object({ orderId: z.string(), placedOn: z.iso.date().transform((d) => new Date(d)) }),
  'parcel.weighed': weight,
});
const placed = { type: 'order.placed', payload: { orderId: 'ORDER-1', placedOn: '2026-11-30' } } as const;
const weighed = { type: 'parcel.weighed', payload: { kg: '1.5' } } as const;

const record = recorder(types, {
  source: '/orders',
  routes: { 'order.placed': ['stock'], 'parcel.weighed': ['stock'] },
});

/** Does not call it; `npx tsc` fails when a line in it compiles that should not, or the other way round. */
const neverRuns = (lines: (tx: Tx, prisma: PrismaClient) => unknown) => expect(lines).toBeTypeOf('function');

describe('the compiler', () => {
  test('lets pass what was declared, and nothing else, when recording', () => {
    neverRuns((tx, prisma) => [
      record(tx, [placed, weighed]),
      recorder(types)(tx, [{ ...placed, source: '/orders', destinations: ['stock'], delaySeconds: 5 }]),
      // @ts-expect-error -- the payload is that of another type
      record(tx, [{ type: 'order.placed', payload: { kg: '1.5' } }]),
      // @ts-expect-error -- a payload is given as the schema takes it, not as it makes it
      record(tx, [{ type: 'parcel.weighed', payload: { kg: 1.5 } }]),
      // @ts-expect-error -- a field is missing
      record(tx, [{ type: 'order.placed', payload: { orderId: 'ORDER-1' } }]),
      // @ts-expect-error -- no such type was declared
      record(tx, [{ type: 'order.lost', payload: {} }]),
      // @ts-expect-error -- no payload
      record(tx, [{ type: 'order.placed' }]),
      // @ts-expect-error -- no such attribute
      record(tx, [{ ...placed, dueInSeconds: 5 }]),
      // @ts-expect-error -- the root client is no transaction
      record(prisma, [placed]),
      // @ts-expect-error -- nor is it for events of any kind
      recordEvents(prisma, [{ ...placed, source: '/orders', destination: 'stock' }]),
    ]);
    expectTypeOf<Parameters<typeof record>[1][number]['type']>().toEqualTypeOf<
      'order.placed' | 'parcel.weighed'
    >();
  });

  test('gives each effect the data of its own type, as its schema makes it', () => {
    type Options = ConsumerOptions<(typeof types)['schemas'], Tx>;
    type Data<T extends keyof Options['effects']> = Parameters<NonNullable<Options['effects'][T]>>[1]['data'];
    expectTypeOf<Data<'order.placed'>>().toEqualTypeOf<{ orderId: string; placedOn: Date }>();
    expectTypeOf<Data<'parcel.weighed'>>().toEqualTypeOf<{ kg: number }>();
    neverRuns((_, prisma) => {
      const rest = { name: 'stock', events: types, prisma, config: {} as Options['config'] };
      return [
        consumer({ ...rest, effects: { 'parcel.weighed': async (tx, { data }) => [tx.order, data.kg * 2] } }),
        // @ts-expect-error -- no such type was declared
        consumer({ ...rest, effects: { 'order.lost': async () => undefined } }),
        consumer({
          ...rest,
          // @ts-expect-error -- the data is that of another type
          effects: { 'order.placed': async (_tx: Tx, { data }: { data: { kg: number } }) => data.kg },
        }),
        // @ts-expect-error -- an effect is asynchronous: what it does must be awaited
        consumer({ ...rest, effects: { 'order.placed': () => 1 } }),
      ];
    });
  });

  test('takes a declaration for any declaration', () => {
    expectTypeOf(types).toExtend<EventTypes>();
    // @ts-expect-error -- no validator
    neverRuns(() => defineEvents({ 'order.placed': { parse: () => 1 } }));
  });
});

describe('zod and a validator written by hand', () => {
  let db: TestDatabase;
  beforeAll(async () => {
    db = await createDatabase();
  });

  test('both guard what is recorded, which is stored as it was given', async () => {
    const prisma = createPrisma(db.url, { max: 1 });
    const ids = await prisma.$transaction((tx) => record(tx, [placed, weighed]));
    const rows = await db.sql(
      'SELECT event_id::text AS id, type, source, destination, payload::text AS payload FROM outbox_event ORDER BY sequence',
    );
    expect(rows).toEqual(
      [placed, weighed].map(({ type, payload }, n) => ({
        id: ids[n],
        type,
        source: '/orders',
        destination: 'stock',
        payload: JSON.stringify(payload),
      })),
    );
  });

  test.each<[string, unknown, string]>([
    [
      'zod',
      { ...placed, payload: { orderId: 'ORDER-1', placedOn: 'yesterday' } },
      'events[1].payload.placedOn',
    ],
    ['by hand', { ...weighed, payload: { kg: '0' } }, 'events[1].payload.kg'],
    ['neither: the type is not declared', { type: 'order.lost', payload: {} }, 'events[1].type'],
    ['neither: the name is of a prototype', { type: 'toString', payload: {} }, 'events[1].type'],
  ])('a refusal names the field, before any SQL (%s)', async (_, event, field) => {
    const prisma = createPrisma(db.url, { max: 1 });
    const before = await db.sql('SELECT count(*) AS n FROM outbox_event');
    const usable = prisma.$transaction(async (tx) => {
      await expect(record(tx, [placed, event as typeof placed])).rejects.toMatchObject({
        name: 'InvalidEventError',
        field,
      });
      return tx.order.count();
    });
    expect(await usable).toBe(0);
    expect(await db.sql('SELECT count(*) AS n FROM outbox_event')).toEqual(before);
  });

  test.each(['', undefined, 7, 'x'.repeat(257)])(
    'a consumer without a usable name is not made (%o)',
    (name) => {
      const rest = { events: types, effects: {}, prisma: createPrisma(db.url, { max: 1 }) };
      const make = () =>
        consumer({
          ...rest,
          name: name as string,
          config: {} as ConsumerOptions<typeof types.schemas, Tx>['config'],
        });
      expect(make).toThrow(
        new TypeError(
          'consumer: name: expected text of 1 to 256 characters without control characters or lone surrogates',
        ),
      );
    },
  );

  test('both make what reaches the effect', async () => {
    captureReports();
    const queues = await startScriptedSqs({ queues: { stock: {}, dead: {} } });
    const applied: unknown[] = [];
    const { deliver } = startConsumer({
      db,
      queues,
      concurrency: 1,
      events: types,
      effects: {
        'order.placed': async (_, { data }) => applied.push(data),
        'parcel.weighed': async (_, { data }) => applied.push(data),
      },
    });
    const records = [placed, weighed].map(({ type, payload }) => orderRecord({ type, data: payload }));
    const light = orderRecord({ type: 'parcel.weighed', data: { kg: '0' } });
    expect(await deliver([...records, light])).toEqual([]);
    expect(applied).toEqual([{ orderId: 'ORDER-1', placedOn: new Date('2026-11-30') }, { kg: 1.5 }]);
    expect(queues.stored('dead')).toMatchObject([
      { attributes: { 'outbox-reason': { StringValue: 'InvalidPayload: payload.kg: weighs nothing' } } },
    ]);
  });
});
