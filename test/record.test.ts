import type { StandardSchemaV1 } from '@standard-schema/spec';
import fc from 'fast-check';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { writeEnvelope } from '../functions/outbox/envelope.ts';
import { defineEvents, type EventInput } from '../functions/outbox/event.ts';
import { MAX_ENVELOPE_BYTES, recordEvents, recorder } from '../functions/outbox/record.ts';
import { InvalidEventError } from '../functions/shared/errors.ts';
import type { TransactionClient } from '../functions/shared/store.ts';
import type { PrismaClient } from '../prisma/client/client.ts';
import { createDatabase, createPrisma, openSession, type TestDatabase } from './support/database.ts';
import { raiseOn, setTimeZone } from './support/knobs.ts';

let db: TestDatabase;
let prisma: PrismaClient;

beforeAll(async () => {
  db = await createDatabase();
  // The whole file runs under a time zone with half the world between it and UTC (case D6).
  await setTimeZone(db, 'America/New_York');
  prisma = createPrisma(db.url, { max: 3 });
});
beforeEach(() => db.sql('TRUNCATE outbox_event, orders'));

const order = { id: 'ORDER-1', sku: 'SKU-17', quantity: 2 };
const event = (more: Partial<EventInput> = {}): EventInput => ({
  type: 'order.placed',
  source: '/orders',
  destinations: ['stock'],
  payload: { sku: 'SKU-17' },
  ...more,
});
const record = (...events: EventInput[]) => prisma.$transaction((tx) => recordEvents(tx, events));

const texts = async () =>
  (await db.sql<{ text: string }>('SELECT payload::text AS text FROM outbox_event ORDER BY sequence')).map(
    ({ text }) => text,
  );
const count = async (table = 'outbox_event') =>
  (await db.sql<{ n: number }>(`SELECT count(*) AS n FROM ${table}`))[0]?.n;

/** When each row is due, and how long after it was recorded. */
const due = () =>
  db.sql<{ at: Date; seconds: number }>(
    'SELECT due_at AS at, extract(epoch FROM due_at - recorded_at)::float8 AS seconds FROM outbox_event ORDER BY sequence',
  );

/** A transaction client that fails the test when a statement reaches it. */
const noSql: TransactionClient = {
  $queryRawUnsafe: () => Promise.reject(new Error('SQL was sent')),
  $executeRawUnsafe: () => Promise.reject(new Error('SQL was sent')),
};
/** The refusal of an event that reaches no database. */
const refused = async (...events: EventInput[]): Promise<InvalidEventError> => {
  const error: unknown = await recordEvents(noSql, events).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(InvalidEventError);
  return error as InvalidEventError;
};

// Promise 1 and case A9.
describe('committed with the business rows or not at all', () => {
  test('a committed order has its event', async () => {
    await prisma.$transaction(async (tx) => {
      await tx.order.create({ data: order });
      await recordEvents(tx, [event()]);
    });
    expect([await count('orders'), await count()]).toEqual([1, 1]);
  });

  test('an order that fails after recording leaves no event', async () => {
    const failed = prisma.$transaction(async (tx) => {
      await tx.order.create({ data: order });
      await recordEvents(tx, [event(), event()]);
      throw new Error('card declined');
    });
    await expect(failed).rejects.toThrow('card declined');
    expect([await count('orders'), await count()]).toEqual([0, 0]);
  });

  test('nobody sees the event before the commit', async () => {
    const onlooker = await openSession(db.url);
    const seen = async () => (await onlooker.query('SELECT 1 FROM outbox_event')).rowCount;
    await prisma.$transaction(async (tx) => {
      await recordEvents(tx, [event()]);
      expect(await seen()).toBe(0);
    });
    expect(await seen()).toBe(1);
  });

  test('a body that is run again after a write conflict records its event once', async () => {
    const own = await createDatabase();
    const client = createPrisma(own.url, { max: 1 });
    const conflicts = await raiseOn(own, { table: 'orders', sqlState: '40001', at: 'commit' });
    const place = () =>
      client.$transaction(async (tx) => {
        await recordEvents(tx, [event()]);
        await tx.order.create({ data: order });
      });
    await expect(place()).rejects.toThrow();
    expect(await conflicts()).toBe(1);
    await place();
    expect(await own.sql('SELECT count(*) AS n FROM outbox_event')).toEqual([{ n: 1 }]);
  });

  test('the root client does not type-check, and throws when forced', async () => {
    // @ts-expect-error a root client would commit the event on its own
    const forced = recordEvents(prisma, [event()]);
    await expect(forced).rejects.toThrow(TypeError);
    await expect(forced).rejects.toThrow('expected the transaction client');
    expect(await count()).toBe(0);
  });

  test('neither does it with the recorder of declared events', async () => {
    const recordDeclared = recorder(defineEvents({ 'order.placed': z.object({}) }), {
      source: '/orders',
      routes: { 'order.placed': ['stock'] },
    });
    // @ts-expect-error a root client would commit the event on its own
    const forced = recordDeclared(prisma, [{ type: 'order.placed', payload: {} }]);
    await expect(forced).rejects.toThrow(TypeError);
    expect(await count()).toBe(0);
  });

  test.each([undefined, null, {}])('nor does %s', async (tx) => {
    await expect(recordEvents(tx as never, [event()])).rejects.toThrow('expected the transaction client');
  });

  test("an extended client's transaction is one too", async () => {
    const extended = prisma.$extends({ name: 'audit' });
    await extended.$transaction((tx) => recordEvents(tx, [event()]));
    expect(await count()).toBe(1);
    // @ts-expect-error a root client, extended or not
    await expect(recordEvents(extended, [event()])).rejects.toThrow('expected the transaction client');
  });

  test('a refused event does not poison the transaction that catches it', async () => {
    await prisma.$transaction(async (tx) => {
      await recordEvents(tx, [event(), event({ type: '' })]).catch(() => undefined);
      await tx.order.create({ data: order });
    });
    expect([await count('orders'), await count()]).toEqual([1, 0]);
  });
});

describe('ids', () => {
  test('come back in the order given; what has none gets a version 7 uuid', async () => {
    const given = '3f0b5c1e-9a41-4d7e-8f0a-6f9d3f1f2b11';
    const ids = await record(event(), event({ id: given }), event());
    expect(ids[1]).toBe(given);
    for (const id of [ids[0], ids[2]]) expect(id).toMatch(/^[\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[89ab]/);
    const rows = await db.sql('SELECT event_id AS id FROM outbox_event ORDER BY sequence');
    expect(rows.map(({ id }) => id)).toEqual(ids);
  });

  test('an upper-case id is the same event as its lower-case twin', async () => {
    const id = '3F0B5C1E-9A41-4D7E-8F0A-6F9D3F1F2B11';
    expect(await record(event({ id }), event({ id: id.toLowerCase() }))).toEqual([
      id.toLowerCase(),
      id.toLowerCase(),
    ]);
    expect(await count()).toBe(1);
  });

  test('the same id and destination twice is one row, the first; another destination is another row', async () => {
    const [id = ''] = await record(event({ payload: 'first' }));
    expect(await record(event({ id, payload: 'second' }), event({ id, payload: 'third' }))).toEqual([id, id]);
    expect(await texts()).toEqual(['"first"']);
    await record(event({ id, destinations: ['mail'] }));
    expect(await count()).toBe(2);
  });

  test('events are claimed in the order given, however many', async () => {
    const ids = await record(...Array.from({ length: 500 }, (_, n) => event({ payload: n })));
    const rows = await db.sql('SELECT event_id AS id FROM outbox_event ORDER BY due_at, sequence');
    expect(rows.map(({ id }) => id)).toEqual(ids);
    expect(new Set(ids).size).toBe(500);
  });

  test('many events are one statement, and none are no statement', async () => {
    let statements = 0;
    const counting: TransactionClient = {
      ...noSql,
      $executeRawUnsafe: () => Promise.resolve((statements += 1)),
    };
    expect(await recordEvents(counting, [event(), event(), event()])).toHaveLength(3);
    expect(statements).toBe(1);
    expect(await recordEvents(noSql, [])).toEqual([]);
  });
});

describe('the payload is the exact text of JSON.stringify', () => {
  // Case D7: Prisma's own JSON field drops dates, reads "$type", and sorts nothing but keeps no text.
  test("dates, Prisma's own words, 1.0, the order of keys and null", async () => {
    const payload = {
      at: new Date(0),
      $type: 'DateTime',
      o: { $type: 'Raw', value: 1 },
      b: 1.0,
      z: 1,
      a: 2,
      n: null,
      nest: [new Date(0)],
    };
    await record(event({ payload }));
    expect(await texts()).toEqual([JSON.stringify(payload)]);
  });

  // Case B4: SQS refuses a message that holds one of the last two.
  test('characters: all stay themselves, U+FFFE and U+FFFF as escapes', async () => {
    const characters = ['\u0007', '😀', '\u007F', '\u2028', '\uFFFE', '\uFFFF', 'a\uFFFFb\uFFFE'];
    await record(...characters.map((t) => event({ payload: { t } })));
    const stored = await texts();
    expect(stored.map((text) => (JSON.parse(text) as { t: string }).t)).toEqual(characters);
    expect(stored.slice(0, 4)).toEqual(characters.slice(0, 4).map((t) => JSON.stringify({ t })));
    expect(stored.slice(4)).toEqual(
      ['{"t":"\\uffff"}', '{"t":"\\uffff"}', '{"t":"a\\uffffb\\ufffe"}'].with(0, '{"t":"\\ufffe"}'),
    );
  });

  test('U+FFFF in a key', async () => {
    await record(event({ payload: { 'k\uFFFF': 1 } }));
    expect(await texts()).toEqual(['{"k\\uffff":1}']);
  });

  // Case D9: jsonb would refuse both, inside the caller's transaction.
  test('NUL and lone surrogates, in values and in keys', async () => {
    const payload = { 'k\u0000': 'a\u0000b', 'k\uD800': '\uD800', tail: '\uDC00x' };
    await record(event({ payload }));
    expect(await texts()).toEqual([JSON.stringify(payload)]);
    expect(JSON.parse((await texts())[0] ?? '')).toEqual(payload);
  });

  test.each([null, 0, -0, 1e300, '', 'NULL', '{}', '"', '\\', 'a,b', false, [], {}, [[]], [null]])(
    'the whole payload is %j',
    async (payload) => {
      await record(event({ payload }), event({ payload }));
      expect(await texts()).toEqual([JSON.stringify(payload), JSON.stringify(payload)]);
    },
  );

  test('any JSON value at all, byte for byte', async () => {
    const text = fc
      .array(fc.oneof({ weight: 3, arbitrary: fc.integer({ min: 0x20, max: 0x7e }) }, fc.nat(0xffff)), {
        maxLength: 12,
      })
      .map((units) => String.fromCharCode(...units));
    const value = fc.anything({
      key: text,
      values: [text, fc.integer(), fc.double(), fc.boolean(), fc.constant(null), fc.date()],
      maxDepth: 4,
    });
    const property = fc.asyncProperty(
      fc.array(value, { minLength: 1, maxLength: 30 }),
      async (payloads: unknown[]) => {
        await db.sql('TRUNCATE outbox_event');
        await record(...payloads.map((payload) => event({ payload })));
        const expected = payloads.map((payload) =>
          JSON.stringify(payload).replaceAll('\uFFFE', '\\ufffe').replaceAll('\uFFFF', '\\uffff'),
        );
        expect(await texts()).toEqual(expected);
      },
    );
    await fc.assert(property, { numRuns: 40 });
  });

  // Case D9.
  test('a BigInt is refused by its path', async () => {
    const payload = { lines: [{ quantity: 1 }, { quantity: 2n }] };
    const { field, message } = await refused(event(), event({ payload }));
    expect(field).toBe('events[1].payload.lines[1].quantity');
    expect(message).toContain('BigInt');
    expect((await refused(event({ payload: 1n }))).field).toBe('events[0].payload');
  });

  test.each([
    ['undefined', undefined],
    ['a function', () => 1],
    ['a symbol', Symbol('s')],
    ['a toJSON that answers nothing', { toJSON: () => undefined }],
    ['a toJSON that answers a BigInt', { toJSON: () => 1n }],
    [
      'a circle',
      (() => {
        const circle: Record<string, unknown> = {};
        return (circle['self'] = { circle, n: circle });
      })(),
    ],
  ])('%s has no JSON text and is refused', async (_, payload) => {
    expect((await refused(event({ payload }))).field).toMatch(/^events\[0\]\.payload/);
  });

  test('a payload nested deeper than JSON.stringify can go is refused, not a stack overflow', async () => {
    let payload: unknown = 1;
    for (let depth = 0; depth < 20_000; depth += 1) payload = [payload];
    expect((await refused(event({ payload }))).field).toBe('events[0].payload');
  });
});

describe('when it is due', () => {
  test('at once, unless told otherwise', async () => {
    await record(event());
    expect((await due())[0]?.seconds).toBeLessThanOrEqual(0);
    expect((await due())[0]?.seconds).toBeGreaterThan(-10);
  });

  // Case D6: the database is in New York; a local time would be hours off.
  test('at dueAt, to the millisecond', async () => {
    const dates = [new Date(0), new Date('2031-07-01T12:34:56.789Z'), new Date('9999-12-31T23:59:59.999Z')];
    await record(...dates.map((dueAt) => event({ dueAt })));
    const exact = `SELECT to_char(due_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS at
      FROM outbox_event ORDER BY sequence`;
    const expected = dates.map((date) => date.toISOString().replace('Z', '000Z'));
    expect((await db.sql<{ at: string }>(exact)).map(({ at }) => at)).toEqual(expected);
  });

  test("delaySeconds after the transaction began, on the database's clock", async () => {
    await record(event({ delaySeconds: 60 }), event({ delaySeconds: 0.5 }), event({ delaySeconds: 0 }));
    const [minute, half, none] = (await due()).map(({ seconds }) => seconds);
    for (const [seconds, asked] of [
      [minute, 60],
      [half, 0.5],
      [none, 0],
    ] as const) {
      expect(seconds).toBeGreaterThan(asked - 10);
      expect(seconds).toBeLessThanOrEqual(asked);
    }
  });

  test('by the time that a date has, whatever its class or its caller makes of it afterwards', async () => {
    class Odd extends Date {
      override toISOString = () => 'garbage';
      override valueOf = () => 5;
    }
    await record(event({ dueAt: new Odd('2031-07-01T00:00:00Z') }));
    expect((await due()).map(({ at }) => at)).toEqual([new Date('2031-07-01T00:00:00Z')]);
    expect((await refused(event({ dueAt: new Odd('+010000-01-01T00:00:00Z') }))).field).toBe(
      'events[0].dueAt',
    );
  });

  test.each<[string, object]>([
    ['dueAt', { dueAt: new Date(Number.NaN) }],
    ['dueAt', { dueAt: new Date('+010000-01-01T00:00:00Z') }],
    ['dueAt', { dueAt: new Date(-1) }],
    ['dueAt', { dueAt: '2031-07-01T12:34:56Z' }],
    ['dueAt', { dueAt: null }],
    ['delaySeconds', { delaySeconds: -1 }],
    ['delaySeconds', { delaySeconds: Number.NaN }],
    ['delaySeconds', { delaySeconds: Infinity }],
    // Milliseconds, given for seconds.
    ['delaySeconds', { delaySeconds: Date.now() }],
    ['delaySeconds', { delaySeconds: 'soon' }],
    // These compare like numbers, and PostgreSQL would refuse them inside the caller's transaction.
    ['delaySeconds', { delaySeconds: true }],
    ['delaySeconds', { delaySeconds: [] }],
    ['delaySeconds', { delaySeconds: '60' }],
    ['delaySeconds', { delaySeconds: 1, dueAt: new Date() }],
  ])('a malformed %s is refused: %j', async (field, more) => {
    expect((await refused(event(more))).field).toBe(`events[0].${field}`);
  });
});

describe('attributes are checked before any SQL, naming the field', () => {
  test.each<[string, object]>([
    ['type', { type: '' }],
    ['type', { type: undefined }],
    ['type', { type: 'a\u0000b' }],
    ['type', { type: 'a\uD800' }],
    ['type', { type: 'a\nb' }],
    ['type', { type: 'a\uFFFF' }],
    ['type', { type: 'a'.repeat(257) }],
    ['source', { source: '' }],
    ['source', { source: 7 }],
    ['source', { source: '/orders\u0000' }],
    ['source', { source: '\uDC00' }],
    ['destination', { destination: undefined }],
    ['destination', { destination: '' }],
    ['destination', { destination: 'stock queue' }],
    ['destination', { destination: 'stock\u0000' }],
    ['destination', { destination: 'stock\n' }],
    ['destination', { destination: 'a'.repeat(65) }],
    ['id', { id: 'ORDER-1' }],
    ['id', { id: '' }],
    ['id', { id: null }],
    ['id', { id: '3f0b5c1e-9a41-4d7e-8f0a-6f9d3f1f2b11\u0000' }],
    ['dueat', { dueat: new Date() }],
    ['orderId', { orderId: 1 }],
    // A misspelt attribute, not the one that is missing for it.
    ['typ', { typ: 'order.placed', type: undefined }],
  ])('%s of %j', async (field, more) => {
    const error = await refused(event(), event(more));
    expect(error.field).toBe(`events[1].${field}`);
    expect(error.message).toContain(error.field);
  });

  test('what is no event, and what is no list', async () => {
    expect((await refused(null as never)).field).toBe('events[0]');
    expect((await refused('event' as never)).field).toBe('events[0]');
    await expect(recordEvents(noSql, event() as never)).rejects.toThrow(InvalidEventError);
    // A hole is no event either.
    const holed = [event()];
    holed[2] = event();
    await expect(recordEvents(noSql, holed)).rejects.toMatchObject({ field: 'events[1]' });
  });

  test('an attribute is read once: what it says later does not count', async () => {
    let reads = 0;
    const changing = {
      ...event(),
      get id() {
        return (reads += 1) === 1 ? '3f0b5c1e-9a41-4d7e-8f0a-6f9d3f1f2b11' : "'; DROP TABLE orders; --";
      },
    };
    expect(await record(changing)).toEqual(['3f0b5c1e-9a41-4d7e-8f0a-6f9d3f1f2b11']);
  });

  test('names at their longest, with spaces, accents and emoji, are stored as they are', async () => {
    const type = '😀 é \' " \\ { } , NULL '.padEnd(256, 'x');
    await record(event({ type, source: 'NULL', destinations: ['a'.repeat(64)] }));
    expect(await db.sql('SELECT type, source, length(destination) AS n FROM outbox_event')).toEqual([
      { type, source: 'NULL', n: 64 },
    ]);
  });
});

// Case B3: what SQS counts is the message, not the payload.
describe('size', () => {
  const id = '3f0b5c1e-9a41-4d7e-8f0a-6f9d3f1f2b11';
  const around = writeEnvelope({
    eventId: id,
    orderingKey: null,
    source: '/orders',
    type: 'order.placed',
    payload: '""',
    recordedAt: '2026-01-01T00:00:00.000000Z',
  });
  const room = MAX_ENVELOPE_BYTES - Buffer.byteLength(around);

  test('a message of exactly 1,048,576 bytes is recorded, one of a byte more is not', async () => {
    expect(MAX_ENVELOPE_BYTES).toBe(1_048_576);
    await record(event({ id, payload: 'x'.repeat(room) }));
    expect(await count()).toBe(1);
    const { field, message } = await refused(event({ id, payload: 'x'.repeat(room + 1) }));
    expect(field).toBe('events[0].payload');
    expect(message).toMatch(/1048577 bytes.*1048576/);
  });

  test('events that no string can hold together are refused by what is wrong, not by the engine', async () => {
    const full: TransactionClient = {
      ...noSql,
      // What Prisma and JSON.stringify throw alike.
      $executeRawUnsafe: () => Promise.reject(new RangeError('Invalid string length')),
    };
    await expect(recordEvents(full, [event()])).rejects.toMatchObject({
      name: 'InvalidEventError',
      field: 'events',
      message: expect.stringContaining('several calls'),
    });
  });

  test('bytes are counted, not characters', async () => {
    expect((await refused(event({ payload: 'é'.repeat(600_000) }))).field).toBe('events[0].payload');
  });
});

describe('declared events', () => {
  const types = defineEvents({
    'order.placed': z.object({
      lines: z.array(z.object({ sku: z.string() })),
      at: z
        .string()
        .transform((text) => new Date(text))
        .optional(),
    }),
    'order.cancelled': z.object({ orderId: z.string() }),
  });
  const recordDeclared = recorder(types, {
    source: '/orders',
    routes: { 'order.placed': ['stock'], 'order.cancelled': ['stock'] },
    destinations: ['stock', 'mail'],
  });

  test('are recorded as given, with the defaults, of which each event may choose others', async () => {
    const payload = { lines: [{ sku: 'SKU-17' }], at: '2026-01-01' };
    await prisma.$transaction((tx) =>
      recordDeclared(tx, [
        { type: 'order.placed', payload },
        { type: 'order.cancelled', payload: { orderId: '1' }, destinations: ['mail'], source: '/shop' },
      ]),
    );
    // Not the schema's output: its transformations are the consumer's.
    expect(await texts()).toEqual([JSON.stringify(payload), '{"orderId":"1"}']);
    expect(await db.sql('SELECT destination, source FROM outbox_event ORDER BY sequence')).toEqual([
      { destination: 'stock', source: '/orders' },
      { destination: 'mail', source: '/shop' },
    ]);
  });

  test("a payload that its schema refuses names the schema's field, before any SQL", async () => {
    const recorded = recordDeclared(noSql, [
      { type: 'order.cancelled', payload: { orderId: '1' } },
      // @ts-expect-error a payload of another shape does not type-check
      { type: 'order.placed', payload: { lines: [{ sku: 17 }] } },
    ]);
    await expect(recorded).rejects.toMatchObject({
      name: 'InvalidEventError',
      field: 'events[1].payload.lines.0.sku',
    });
  });

  test.each(['order.lost', 'toString', '__proto__'])('the type %s was never declared', async (type) => {
    // @ts-expect-error an undeclared type does not type-check
    const recorded = recordDeclared(noSql, [{ type, payload: {} }]);
    await expect(recorded).rejects.toMatchObject({ field: 'events[0].type' });
  });

  test.each<[string, unknown]>([
    ['events', undefined],
    ['events', {}],
    ['events[0]', [null]],
    ['events[0]', ['order.placed']],
    ['events[0].type', [{}]],
    ['events[0].type', [{ type: 1n }]],
    ['events[0].type', [{ type: Object.create(null) }]],
    ['events[0].destinations', [{ destinations: 'stock' }]],
    ['events[0].destinations', [{ destinations: null }]],
    ['events[0].destinations', [{ destinations: [1n] }]],
  ])('%s that are none are refused by path, before any SQL', async (field, events) => {
    const cancelled = { type: 'order.cancelled', payload: { orderId: '1' } };
    const given = field.endsWith('destinations')
      ? (events as object[]).map((event) => ({ ...cancelled, ...event }))
      : events;
    const recorded = recordDeclared(noSql, given as Parameters<typeof recordDeclared>[1]);
    await expect(recorded).rejects.toMatchObject({ name: 'InvalidEventError', field });
  });

  test('are checked one after the other, and the first problem is the one that is told', async () => {
    let underway = 0;
    let most = 0;
    const refusing = (milliseconds: number): StandardSchemaV1 => ({
      '~standard': {
        version: 1,
        vendor: 'by hand',
        validate: async () => {
          most = Math.max(most, (underway += 1));
          await sleep(milliseconds);
          underway -= 1;
          return { issues: [{ message: 'no' }] };
        },
      },
    });
    const slowly = recorder(defineEvents({ slow: refusing(20), fast: refusing(1) }), {
      source: '/orders',
      routes: { slow: ['stock'], fast: ['stock'] },
    });
    const recorded = slowly(noSql, [
      { type: 'slow', payload: 1 },
      { type: 'fast', payload: 1 },
    ]);
    await expect(recorded).rejects.toMatchObject({ field: 'events[0].payload' });
    expect(most).toBe(1);
  });

  test.each(['constructor', 'toString'])(
    'a type called %s has the route that it was given, or none',
    async (type) => {
      const types = defineEvents({ [type]: z.number() });
      const routed = recorder(types, { source: '/orders', destinations: ['stock'] });
      await expect(routed(noSql, [{ type, payload: 1 }])).rejects.toMatchObject({
        name: 'InvalidEventError',
        field: 'events[0].destinations',
        message: expect.stringContaining(`no route for "${type}"`),
      });
    },
  );

  test('without a default, a source must be given', async () => {
    const recordTo = recorder(types, { routes: { 'order.cancelled': ['stock'] } });
    const recorded = recordTo(noSql, [{ type: 'order.cancelled', payload: { orderId: '1' } }]);
    await expect(recorded).rejects.toMatchObject({ field: 'events[0].source' });
  });
});
