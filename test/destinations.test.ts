// One contract for every kind of destination: whatever the endpoint does, nothing is lost, poison stays alone, an outage
// parks nothing, and the other destinations go on. Each kind is driven through the relay's own tick.

import { EventBridgeClient, PutEventsCommand, type PutEventsRequestEntry } from '@aws-sdk/client-eventbridge';
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import * as bus from '../infra/local/eventbridge.ts';
import { readEnvelope } from '../functions/outbox/envelope.ts';
import { recordEvents } from '../functions/outbox/record.ts';
import type { RelayConfig } from '../functions/relay/config.ts';
import type { TickCounts } from '../functions/relay/counts.ts';
import type { Destination, EventBridgeDestination } from '../functions/relay/destination.ts';
import { eventBridgeSender } from '../functions/relay/eventbridge.ts';
import type { RelayParts } from '../functions/relay/parts.ts';
import type { Sender } from '../functions/relay/sender.ts';
import { sqsSender } from '../functions/relay/sqs.ts';
import { tick } from '../functions/relay/tick.ts';
import type { PrismaClient } from '../prisma/client/client.ts';
import { afterwards } from './support/cleanup.ts';
import { createDatabase, createPrisma, type TestDatabase } from './support/database.ts';
import { insertEvents, type EventColumns } from './support/factories.ts';
import {
  destinationsOf,
  endBackoffs,
  expireLeases,
  idOfBody,
  outboxRows,
  relayParts,
  storedIds,
  type OutboxRow,
} from './support/relay.ts';
import * as scripted from './support/scripted-sqs.ts';
import { startScriptedSqs, type ScriptedSqs } from './support/scripted-sqs.ts';
import { messageBytes } from './support/sqs-rules.ts';
import { soon, until } from './support/wait.ts';

/** What an endpoint does to a whole call. */
type Trouble = 'content' | 'throttled' | '503' | 'denied' | 'missing' | 'reset' | 'stall' | 'storeThenReset';

/** What an endpoint does to entries of a call, by position; the others go as it would have them. */
interface EntryFaults {
  refuse?: number[];
  fail?: number[];
  sayNothingOf?: number[];
}

type Fault = Trouble | EntryFaults;

/** A message that the endpoint has taken. */
interface Arrival {
  /** What the relay wrote: a CloudEvents envelope. */
  envelope: string;
  /** The body of the SQS message that a consumer gets. */
  body: string;
  /** By the endpoint's own rule. */
  bytes: number;
  messageId: string;
}

/** An endpoint of one kind, and a sender to it. */
interface Endpoint {
  destination: Destination;
  sender: Sender;
  /** The next call goes like this. */
  next(fault: Fault): void;
  /** Every call goes as this says; it is given the envelopes. Without an argument, as the endpoint would have it. */
  on(script?: (envelopes: string[]) => Fault | undefined): void;
  /** The envelopes of every HTTP request, those that the SDK repeats by itself too. */
  calls(): string[][];
  arrived(): Arrival[];
  stop(): Promise<void>;
}

/** A kind of destination, and how it differs. */
interface Kind {
  start(): Promise<Endpoint>;
  /** Each event has an ordering key of its own. */
  keyed: boolean;
  /** The same event sent twice within minutes arrives once. */
  deduplicates: boolean;
  /** HTTP requests that the SDK makes of one call before it gives up. */
  requestsPerCall: number;
  /** Bytes of a message and of a call, by the endpoint's own rule. */
  maxBytes: number;
  codes: { refuse: string; fail: string; content: string };
}

const SQS_CODES = {
  refuse: 'InvalidMessageContents',
  fail: 'InternalError',
  content: 'BatchRequestTooLong',
};
const BUS_CODES = { refuse: 'MalformedDetail', fail: 'InternalFailure', content: 'ValidationException' };
/** What the bus is set to take, and the relay to send. */
const BUS_BYTES = 262_144;

const sqsKind = (queue: string): Kind => ({
  start: () => startSqs(queue),
  keyed: queue.endsWith('.fifo'),
  deduplicates: queue.endsWith('.fifo'),
  requestsPerCall: 1,
  maxBytes: 1_048_576,
  codes: SQS_CODES,
});

const kinds: Record<string, Kind> = {
  'a standard queue': sqsKind('subject'),
  'a FIFO queue': sqsKind('subject.fifo'),
  'an event bus': {
    start: startBusEndpoint,
    keyed: false,
    deduplicates: false,
    requestsPerCall: 2,
    maxBytes: BUS_BYTES,
    codes: BUS_CODES,
  },
};

const sqsTroubles: Record<Trouble, () => scripted.Answer> = {
  content: scripted.batchRequestTooLong,
  throttled: scripted.throttled,
  503: () => scripted.httpError(503),
  denied: scripted.accessDenied,
  missing: scripted.queueDoesNotExist,
  reset: scripted.reset,
  stall: scripted.stall,
  storeThenReset: scripted.storeThenReset,
};

const busTroubles: Record<Trouble, () => bus.Answer> = {
  content: () => bus.serviceError('ValidationException'),
  throttled: bus.throttled,
  503: () => bus.httpError(503),
  denied: bus.accessDenied,
  missing: () => bus.serviceError('ResourceNotFoundException'),
  reset: bus.reset,
  stall: bus.stall,
  storeThenReset: bus.storeThenReset,
};

/** `{ 3: value, 7: value }` for the places 3 and 7. */
const at = <T>(places: number[] = [], value: T): Record<number, T> =>
  Object.fromEntries(places.map((place) => [place, value]));

const bodiesOf = ({ entries }: scripted.Call) => entries.map(({ MessageBody }) => MessageBody);
const detailsOf = ({ entries }: bus.PutEventsCall) => entries.map(({ Detail = '' }) => Detail);

const sqsAnswer = (fault: Fault): scripted.Answer => {
  if (typeof fault !== 'object') return sqsTroubles[fault]();
  const { refuse, fail, sayNothingOf } = fault;
  return scripted.outcomes({
    ...at(refuse, { code: SQS_CODES.refuse, senderFault: true }),
    ...at(fail, { code: SQS_CODES.fail }),
    ...at(sayNothingOf, 'omitted' as const),
  });
};

async function startSqs(queue: string): Promise<Endpoint> {
  const sqs = await startScriptedSqs({ queues: { [queue]: {} } });
  const { [queue]: destination } = destinationsOf(sqs, queue);
  if (destination?.kind !== 'sqs') throw new Error('no destination');
  return {
    destination,
    sender: sqsSender(sqs.client(), destination),
    next: (fault) => sqs.next(sqsAnswer(fault)),
    on: (script) =>
      sqs.on((call) => {
        const fault = script?.(bodiesOf(call));
        return fault && sqsAnswer(fault);
      }),
    calls: () => sqs.sends().map(bodiesOf),
    arrived: () =>
      sqs.stored(queue).map(({ body, messageId, attributes }) => ({
        envelope: body,
        body,
        messageId,
        bytes: messageBytes({ Id: '', MessageBody: body, MessageAttributes: attributes }),
      })),
    stop: () => sqs.stop(),
  };
}

/** An EventBridge that senders made from now on, in this test, will find. */
async function startBus(options: Parameters<typeof bus.startEventBridge>[0]): Promise<bus.EventBridge> {
  const server = await bus.startEventBridge(options);
  afterwards(server.stop);
  vi.stubEnv('AWS_ENDPOINT_URL_EVENTBRIDGE', server.url);
  vi.stubEnv('AWS_REGION', 'us-east-1');
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'test');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'test');
  return server;
}

const busDestination = (busName: string): EventBridgeDestination => ({
  kind: 'eventbridge',
  busName,
  maxBytes: BUS_BYTES,
  parkedHead: 'hold',
});

const busAnswer = (fault: Fault): bus.Answer => {
  if (typeof fault !== 'object') return busTroubles[fault]();
  const { refuse, fail, sayNothingOf } = fault;
  if (sayNothingOf) return bus.sayNothingOf(...sayNothingOf);
  return bus.fail({ ...at(refuse, BUS_CODES.refuse), ...at(fail, BUS_CODES.fail) });
};

async function startBusEndpoint(): Promise<Endpoint> {
  const server = await startBus({ buses: ['subject'], maxBytes: BUS_BYTES });
  const destination = busDestination('subject');
  return {
    destination,
    sender: eventBridgeSender(destination),
    next: (fault) => server.next(busAnswer(fault)),
    on: (script) =>
      server.on((call) => {
        const fault = script?.(detailsOf(call));
        return fault && busAnswer(fault);
      }),
    calls: () => server.calls.map(detailsOf),
    arrived: () =>
      server.events.map((event) => ({
        envelope: event.Detail,
        body: bus.targetBody(event),
        messageId: event.EventId,
        bytes: bus.entryBytes(event),
      })),
    stop: server.stop,
  };
}

let db: TestDatabase;
let prisma: PrismaClient;
/** A queue beside the one under test, on an endpoint of its own. */
let other: ScriptedSqs;

beforeAll(async () => {
  db = await createDatabase();
  prisma = createPrisma(db.url, { max: 4 });
});
beforeEach(async () => {
  await db.sql('TRUNCATE outbox_event RESTART IDENTITY');
  other = await startScriptedSqs({ queues: { other: {} } });
});
afterEach(() => void vi.unstubAllEnvs());

const dataOf = (envelope: string) => (JSON.parse(envelope) as { data: unknown }).data;
const numberOf = (envelope: string) => (dataOf(envelope) as { n: number }).n;
/** Positions, in a call, of the events with these payload numbers. */
const placesOf = (envelopes: string[], ...numbers: number[]) =>
  envelopes.flatMap((envelope, place) => (numbers.includes(numberOf(envelope)) ? [place] : []));
const arrivedNumbers = (endpoint: Endpoint) =>
  endpoint
    .arrived()
    .map(({ envelope }) => numberOf(envelope))
    .toSorted((a, b) => a - b);
const oneToTen = Array.from({ length: 10 }, (_, index) => index + 1);
const rowsTo = async (name: string) =>
  (await outboxRows(db)).filter(({ destination }) => destination === name);
const published = { state: 'PUBLISHED', attempts: 1, releases: 0, parkReason: null, lastError: null };
const released = { state: 'PENDING', releases: 1, claimToken: null, parkReason: null };

/** The other queue has its 25, each once; the endpoint's own wait, none the worse for it. */
async function expectOutageToCostNothing(counts: TickCounts): Promise<OutboxRow[]> {
  expect(counts).toMatchObject({ published: 25, acknowledged: 25, parked: 0, unanswered: 0 });
  expect(await rowsTo('other')).toMatchObject(Array.from({ length: 25 }, () => published));
  expect(new Set(storedIds(other, 'other')).size).toBe(25);
  expect(other.stored('other')).toHaveLength(25);
  const rows = await rowsTo('subject');
  const waiting = { state: 'PENDING', attempts: 0, claimToken: null, parkReason: null };
  expect(rows).toMatchObject(Array.from({ length: 25 }, () => waiting));
  return rows;
}

/** With a NUL or half a surrogate pair it could not be recorded as a key. */
const keyOf = (text: string) => `${text.toWellFormed().replaceAll('\u0000', '')} of order`;

describe.each(Object.entries(kinds))('%s', (_, kind) => {
  let endpoint: Endpoint;

  beforeEach(async () => {
    endpoint = await kind.start();
  });

  /** One tick with all the time it wants, to the endpoint and to the other queue. */
  function tickOnce(settings: Partial<RelayConfig> = {}): Promise<TickCounts> {
    const { other: healthy } = destinationsOf(other, 'other');
    if (healthy?.kind !== 'sqs') throw new Error('no destination');
    const relay: RelayParts = {
      ...relayParts(prisma, other, {
        destinations: { subject: endpoint.destination, other: healthy },
        backoffBaseSeconds: 60,
        ...settings,
      }),
      senders: new Map([
        ['subject', endpoint.sender],
        ['other', sqsSender(other.client(), healthy) as Sender],
      ]),
    };
    return soon(
      tick(relay, () => 20_000),
      { within: 25_000, message: 'the tick' },
    );
  }

  /** Events to the endpoint under test, payload `{"n":1}`, `{"n":2}`, … */
  const insert = (count: number, more: (index: number) => Partial<EventColumns> = () => ({})) =>
    insertEvents(db, count, (index) => ({
      destination: 'subject',
      orderingKey: kind.keyed ? `key ${String(index).padStart(4, '0')}` : null,
      ...more(index),
    }));

  /** To the endpoint under test and to the other queue by turns, `count` each. */
  const insertBoth = (count: number) =>
    insert(2 * count, (index) => (index % 2 === 0 ? {} : { destination: 'other', orderingKey: null }));

  test('every event arrives once and is acknowledged with the id that its destination gave it', async () => {
    const events = await insert(25);
    expect(await tickOnce()).toMatchObject({ claimed: 25, published: 25, acknowledged: 25 });
    const idOfMessage = new Map(
      endpoint.arrived().map(({ envelope, messageId }) => [idOfBody(envelope), messageId]),
    );
    expect(endpoint.arrived()).toHaveLength(25);
    const rows = await outboxRows(db);
    expect(rows).toMatchObject(
      events.map(({ eventId }) => ({ ...published, eventId, messageId: idOfMessage.get(eventId) })),
    );
    expect(endpoint.calls().every((entries) => entries.length <= 10)).toBe(true);
  });

  // Case B1.
  test('a refused entry is parked alone, with the code, and never sent again', async () => {
    await insert(10);
    endpoint.on((envelopes) => ({ refuse: placesOf(envelopes, 9) }));
    await tickOnce();
    await tickOnce();
    const rows = await outboxRows(db);
    expect(rows.toSpliced(8, 1)).toMatchObject(Array.from({ length: 9 }, () => published));
    expect(rows[8]).toMatchObject({ state: 'PARKED', attempts: 1, claimToken: null });
    expect(rows[8]?.parkReason).toMatch(new RegExp(`^${kind.codes.refuse}: `));
    expect(endpoint.calls()).toHaveLength(1);
  });

  // Case B1.
  test('an entry that is unavailable is released with back-off, and its neighbours are not sent again', async () => {
    await insert(10);
    endpoint.on((envelopes) => ({ fail: placesOf(envelopes, 3, 7) }));
    expect(await tickOnce()).toMatchObject({ published: 8, acknowledged: 8, released: 2, parked: 0 });
    const rows = await outboxRows(db);
    for (const row of rows.filter((_, index) => index !== 2 && index !== 6))
      expect(row).toMatchObject(published);
    for (const row of [rows[2], rows[6]]) {
      expect(row).toMatchObject({ ...released, attempts: 1 });
      expect(row?.lastError).toContain(kind.codes.fail);
      expect(row?.dueInSeconds).toBeGreaterThan(50);
    }
    expect(await tickOnce()).toMatchObject({ claimed: 0 });

    endpoint.on();
    await endBackoffs(db);
    await tickOnce();
    expect(arrivedNumbers(endpoint)).toEqual(oneToTen);
    expect(endpoint.calls()).toHaveLength(2);
  });

  // Case B1.
  test('a call that fails as a whole costs its events no attempt, and the other calls nothing', async () => {
    await insert(30);
    endpoint.on((envelopes) => (placesOf(envelopes, 17).length > 0 ? '503' : undefined));
    expect(await tickOnce()).toMatchObject({ published: 20, acknowledged: 20, released: 10, parked: 0 });
    const rows = await outboxRows(db);
    expect(rows.filter(({ state }) => state === 'PENDING')).toMatchObject(
      oneToTen.map(() => ({ ...released, attempts: 0 })),
    );

    endpoint.on();
    await endBackoffs(db);
    await tickOnce();
    expect(arrivedNumbers(endpoint)).toEqual(Array.from({ length: 30 }, (_, index) => index + 1));
    expect(await outboxRows(db)).toMatchObject(
      Array.from({ length: 30 }, () => ({ state: 'PUBLISHED', attempts: 1 })),
    );
  });

  test('an entry of which the answer says nothing is tried again, not taken for sent', async () => {
    await insert(10);
    endpoint.on((envelopes) => ({ sayNothingOf: placesOf(envelopes, 4) }));
    expect(await tickOnce()).toMatchObject({ published: 9, acknowledged: 9, released: 1 });
    const row = (await outboxRows(db))[3];
    expect(row).toMatchObject({ ...released, attempts: 1, messageId: null });
    expect(row?.lastError).toMatch(/^Unaccounted/);

    endpoint.on();
    await endBackoffs(db);
    await tickOnce();
    expect(arrivedNumbers(endpoint)).toEqual(oneToTen);
    expect(await outboxRows(db)).toMatchObject(oneToTen.map(() => ({ state: 'PUBLISHED' })));
  });

  // Case B3.
  test('a call refused for its content is cut down to the bad event, and no call is made twice', async () => {
    await insert(10);
    endpoint.on((envelopes) => (placesOf(envelopes, 6).length > 0 ? 'content' : undefined));
    expect(await tickOnce()).toMatchObject({ published: 9, acknowledged: 9, parked: 1, released: 0 });
    const rows = await outboxRows(db);
    expect(rows.filter(({ state }) => state === 'PARKED')).toMatchObject([{ sequence: 6n, attempts: 1 }]);
    expect(rows[5]?.parkReason).toContain(kind.codes.content);
    expect(arrivedNumbers(endpoint)).toEqual(oneToTen.filter((n) => n !== 6));
    const calls = endpoint.calls().map((entries) => entries.map(numberOf).join());
    expect(calls).toContain('6');
    expect(new Set(calls).size).toBe(calls.length);
  });

  describe('an outage parks nothing, spends no attempt, holds up no other destination, and is asked once', () => {
    test.each<[Trouble, RegExp]>([
      ['throttled', /Throttl/],
      ['503', /./],
      ['denied', /AccessDenied/],
      ['missing', /QueueDoesNotExist|ResourceNotFound/],
      ['reset', /ECONNRESET|socket hang up/],
    ])('%s', async (trouble, reason) => {
      await insertBoth(25);
      endpoint.on(() => trouble);
      const rows = await expectOutageToCostNothing(await tickOnce({ claimLimit: 10, claimsUnderway: 1 }));
      const asked = endpoint.calls().length;
      expect(asked).toBeGreaterThan(0);
      expect(asked).toBeLessThanOrEqual(kind.requestsPerCall);
      expect(rows[0]).toMatchObject({ ...released, attempts: 0 });
      expect(rows[0]?.lastError).toMatch(reason);

      endpoint.on();
      await endBackoffs(db);
      await tickOnce();
      expect(endpoint.arrived()).toHaveLength(25);
      expect(await rowsTo('subject')).toMatchObject(
        Array.from({ length: 25 }, () => ({ state: 'PUBLISHED', attempts: 1 })),
      );
    });

    test('every entry of every call, one by one', async () => {
      await insertBoth(25);
      endpoint.on((envelopes) => ({ fail: [...envelopes.keys()] }));
      const rows = await expectOutageToCostNothing(await tickOnce({ claimLimit: 10, claimsUnderway: 1 }));
      expect(rows[0]).toMatchObject({ ...released, attempts: 0 });
      expect(rows[0]?.lastError).toContain(kind.codes.fail);
      expect(endpoint.calls()).toHaveLength(1);
    });

    test('connection refused', async () => {
      await insertBoth(25);
      await endpoint.stop();
      const rows = await expectOutageToCostNothing(await tickOnce({ claimLimit: 10, claimsUnderway: 1 }));
      expect(rows[0]).toMatchObject({ ...released, attempts: 0 });
      expect(rows[0]?.lastError).toContain('ECONNREFUSED');
    });

    test('also when each claim brings only one event for it', async () => {
      // One to the endpoint among every ten.
      await insert(30, (index) => (index % 10 === 0 ? {} : { destination: 'other', orderingKey: null }));
      endpoint.on(() => '503');
      await tickOnce({ claimLimit: 10, claimsUnderway: 1 });
      expect(await rowsTo('other')).toMatchObject(Array.from({ length: 27 }, () => published));
      expect(await rowsTo('subject')).toMatchObject(
        Array.from({ length: 3 }, () => ({ state: 'PENDING', attempts: 0, claimToken: null })),
      );
      expect(endpoint.calls().length).toBeLessThanOrEqual(kind.requestsPerCall);
    });
  });

  // Case B5.
  test('a call without an answer keeps its lease, and its events are sent when that has run out', async () => {
    await insertBoth(5);
    endpoint.on(() => 'stall');
    expect(await tickOnce({ callTimeoutSeconds: 0.4 })).toMatchObject({
      published: 5,
      unanswered: 5,
      released: 0,
    });
    expect(await rowsTo('other')).toMatchObject(Array.from({ length: 5 }, () => published));
    const held = { state: 'PENDING', attempts: 1, releases: 0, parkReason: null };
    const rows = await rowsTo('subject');
    expect(rows).toMatchObject(Array.from({ length: 5 }, () => held));
    expect(rows.every(({ claimToken, leaseInSeconds }) => claimToken && (leaseInSeconds ?? 0) > 5)).toBe(
      true,
    );

    endpoint.on();
    expect(await tickOnce()).toMatchObject({ claimed: 0 });
    expect(endpoint.arrived()).toEqual([]);
    await expireLeases(db);
    expect(await tickOnce()).toMatchObject({ acknowledged: 5 });
    expect(endpoint.arrived()).toHaveLength(5);
    expect(await rowsTo('subject')).toMatchObject(
      Array.from({ length: 5 }, () => ({ state: 'PUBLISHED', attempts: 2 })),
    );
  });

  // Case B6.
  test('a call that was stored before the connection broke is sent again, under the same ids', async () => {
    const events = await insert(3);
    endpoint.next('storeThenReset');
    await tickOnce();
    await endBackoffs(db);
    await tickOnce();
    expect(await outboxRows(db)).toMatchObject(
      events.map(({ eventId }) => ({ eventId, state: 'PUBLISHED', attempts: 1, parkReason: null })),
    );
    const ids = events.map(({ eventId }) => eventId);
    const arrivedIds = endpoint.arrived().map(({ envelope }) => idOfBody(envelope));
    expect(arrivedIds.toSorted()).toEqual((kind.deduplicates ? ids : [...ids, ...ids]).toSorted());
    expect(endpoint.calls().flat()).toHaveLength(6);
  });

  /** A payload with which an event is exactly so large by the endpoint's own rule. */
  async function filler(): Promise<(bytes: number) => { n: number; fill: string }> {
    await insert(1, () => ({ payload: { n: 0, fill: '' } }));
    await tickOnce();
    const bare = endpoint.arrived().at(-1)?.bytes ?? Number.NaN;
    return (bytes) => {
      const [pairs, odd] = [Math.floor((bytes - bare) / 2), (bytes - bare) % 2];
      return { n: 0, fill: 'é'.repeat(pairs) + 'x'.repeat(odd) };
    };
  }

  // Case B3: bytes, not characters.
  test('an event of exactly the limit passes, one byte more is parked alone, unsent', async () => {
    const sized = await filler();
    const [exact, above, huge] = [
      sized(kind.maxBytes),
      sized(kind.maxBytes + 1),
      { n: 0, fill: 'é'.repeat(600_000) },
    ];
    const payloads = [{ n: 1 }, above, { n: 2 }, exact, huge, { n: 3 }];
    const events = await insert(payloads.length, (index) => ({ payload: payloads[index] }));
    await tickOnce();
    const rows = new Map((await outboxRows(db)).map((row) => [row.eventId, row]));
    const [first, tooLong, second, fits, tooHuge, third] = events.map(({ eventId }) => rows.get(eventId));
    for (const row of [first, second, fits, third]) expect(row).toMatchObject(published);
    const reason = new RegExp(`^TooLarge: .* ${kind.maxBytes + 1} bytes, .* ${kind.maxBytes}$`);
    expect(tooLong).toMatchObject({
      state: 'PARKED',
      attempts: 1,
      parkReason: expect.stringMatching(reason),
    });
    expect(tooHuge).toMatchObject({ state: 'PARKED', attempts: 1 });
    expect(Math.max(...endpoint.arrived().map(({ bytes }) => bytes))).toBe(kind.maxBytes);
    const sent = endpoint.calls().flat().map(idOfBody);
    expect(sent).not.toContain(tooLong?.eventId);
    expect(sent).not.toContain(tooHuge?.eventId);
  });

  // Case B3.
  test('large events are cut into as many calls as their bytes need, and no more', async () => {
    const sized = await filler();
    const probes = endpoint.calls().length;
    await insert(12, () => ({ payload: sized(110 * 1_024) }));
    expect(await tickOnce()).toMatchObject({ acknowledged: 12, parked: 0 });
    const inOneCall = Math.floor(kind.maxBytes / (110 * 1_024));
    const calls = endpoint.calls().slice(probes);
    expect(calls).toHaveLength(Math.ceil(12 / inOneCall));
    expect(Math.max(...calls.map((entries) => entries.length))).toBe(inOneCall);
  });

  // Case B4.
  test('characters that SQS refuses arrive as they were recorded, in payload and ordering key', async () => {
    const texts = ['\uFFFF', '\uFFFE', '\u0007', '😀', '\u007F', '\u0000', '\uD800', 'é\u2028'];
    const ids = await prisma.$transaction((tx) =>
      recordEvents(
        tx,
        texts.map((t) => ({
          type: 'order.placed',
          source: '/orders',
          destinations: ['subject'],
          orderingKey: keyOf(t),
          payload: { t, [t]: [t] },
        })),
      ),
    );
    expect(await tickOnce()).toMatchObject({ acknowledged: texts.length, parked: 0 });
    const received = new Map(
      endpoint.arrived().map(({ body, envelope }) => [idOfBody(envelope), readEnvelope(body)]),
    );
    for (const [index, t] of texts.entries()) {
      expect(received.get(ids[index] ?? '')).toMatchObject({
        envelope: { orderingKey: keyOf(t), data: { t, [t]: [t] } },
      });
    }
  });

  // Rows that something else than recordEvents wrote, such as a trigger.
  test('characters that SQS refuses arrive as they were recorded, in type and source', async () => {
    const odd = ['\uFFFF', '\uFFFE', '\u0007', '😀', '\u007F', 'é'].map((t) => ({
      type: `${t} type`,
      source: `${t} source`,
    }));
    await insert(odd.length, (index) => ({ ...odd[index], orderingKey: null }));
    expect(await tickOnce()).toMatchObject({ acknowledged: odd.length, parked: 0 });
    const arrived = endpoint
      .arrived()
      .map(({ envelope }) => JSON.parse(envelope) as { type: string; source: string });
    expect(arrived.map(({ type, source }) => ({ type, source }))).toEqual(odd);
  });

  test('a consumer can read what arrives', async () => {
    const [id = ''] = await prisma.$transaction((tx) =>
      recordEvents(tx, [
        {
          type: 'order.placed',
          source: '/orders/eu',
          destinations: ['subject'],
          orderingKey: 'ORDER-7',
          payload: { orderId: 'ORDER-7', quantity: 2, note: null },
        },
      ]),
    );
    await tickOnce();
    const [recorded] = await db.sql<{ at: Date }>('SELECT recorded_at AS at FROM outbox_event');
    const [read] = endpoint.arrived().map(({ body }) => readEnvelope(body));
    expect(read).toEqual({
      envelope: {
        id,
        source: '/orders/eu',
        type: 'order.placed',
        time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/),
        orderingKey: 'ORDER-7',
        data: { orderId: 'ORDER-7', quantity: 2, note: null },
      },
    });
    const { time = '' } = read && 'envelope' in read ? read.envelope : {};
    expect(new Date(time)).toEqual(recorded?.at);
  });
});

/** What becomes of three events for a bus that answers the first call like this. */
async function ticked(answer: bus.Answer, busName = 'subject') {
  const server = await startBus({ buses: ['subject'] });
  server.next(answer);
  await insertEvents(db, 3, { destination: 'bus' });
  await tick(relayParts(prisma, other, { destinations: { bus: busDestination(busName) } }), () => 20_000);
  return { server, rows: await outboxRows(db) };
}

describe('only an event bus', () => {
  test('an answer shorter than the call leaves the rest for another try', async () => {
    const { rows } = await ticked(bus.answerOnly(1));
    expect(rows).toMatchObject([published, { ...released, attempts: 1 }, { ...released, attempts: 1 }]);
    expect(rows[2]?.lastError).toMatch(/^Unaccounted/);
  });

  test('an answer without a list is no success', async () => {
    const { rows } = await ticked(({ respond }) => respond(200, {}));
    expect(rows).toMatchObject([0, 1, 2].map(() => ({ ...released, attempts: 0 })));
  });

  test.each([
    // The queue's pace says nothing of the event, so it costs no attempt.
    ['ThrottlingException', 0],
    ['InternalFailure', 1],
    ['AccessDeniedException', 1],
    ['NeverHeardOfIt', 1],
  ])('an entry that fails with %s is tried again', async (code, attempts) => {
    const { rows } = await ticked(bus.fail({ 1: code }));
    expect(rows).toMatchObject([published, { ...released, attempts }, published]);
    expect(rows[1]?.lastError).toContain(code);
  });

  test.each(['MalformedDetail', 'InvalidArgument'])('an entry that fails with %s is parked', async (code) => {
    const { rows } = await ticked(bus.fail({ 1: code }));
    expect(rows).toMatchObject([published, { state: 'PARKED' }, published]);
    expect(rows[1]?.parkReason).toContain(code);
  });

  test('source, type and time of recording are the bus event’s own, so that rules can match them', async () => {
    const { server, rows } = await ticked(
      bus.ok(),
      'arn:aws:events:us-east-1:000000000000:event-bus/subject',
    );
    expect(rows).toMatchObject([published, published, published]);
    expect(server.events).toMatchObject(
      [1, 2, 3].map(() => ({ Source: '/orders', DetailType: 'order.placed' })),
    );
    const [recorded] = await db.sql<{ seconds: number }>(
      'SELECT extract(epoch FROM recorded_at)::float8 AS seconds FROM outbox_event ORDER BY sequence',
    );
    expect(server.events[0]?.Time).toBeCloseTo(recorded?.seconds ?? 0, 1);
  });

  // The service says nothing, so the relay cannot know; the documentation warns of it.
  test('a bus that does not exist swallows events', async () => {
    const { server, rows } = await ticked(bus.ok(), 'mistyped');
    expect(rows).toMatchObject([published, published, published]);
    expect(server.events).toEqual([]);
  });
});

/** One call through the SDK. */
async function put(
  Entries: PutEventsRequestEntry[],
  options: Parameters<typeof bus.startEventBridge>[0] = {},
) {
  const server = await bus.startEventBridge(options);
  afterwards(server.stop);
  const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
  const client = new EventBridgeClient({
    endpoint: server.url,
    region: 'us-east-1',
    credentials,
    maxAttempts: 1,
  });
  afterwards(() => client.destroy());
  return { server, answer: () => client.send(new PutEventsCommand({ Entries })) };
}
/** An entry that nothing is wrong with. */
const entry = (more: PutEventsRequestEntry = {}): PutEventsRequestEntry => ({
  Source: 's',
  DetailType: 't',
  Detail: '{}',
  ...more,
});

describe('the local EventBridge keeps the service’s rules', () => {
  test('eleven entries, and none, are refused as a whole', async () => {
    for (const Entries of [Array.from({ length: 11 }, () => entry()), []]) {
      const { answer, server } = await put(Entries);
      await expect(answer()).rejects.toMatchObject({
        name: 'ValidationException',
        $metadata: { httpStatusCode: 400 },
      });
      expect(server.events).toEqual([]);
    }
  });

  test('bytes are those of source, type, detail, resources, and 14 for a time', async () => {
    const whole = entry({ Source: 'é', Resources: ['arn'], Time: new Date(0), Detail: '{"é":1}' });
    const bytes = 2 + 1 + 8 + 3 + 14;
    expect((await (await put([whole], { maxBytes: bytes })).answer()).FailedEntryCount).toBe(0);
    await expect((await put([whole], { maxBytes: bytes - 1 })).answer()).rejects.toThrow('over the limit');
  });

  test('malformed entries fail one by one, by position', async () => {
    const { answer, server } = await put([
      entry(),
      entry({ Detail: '{' }),
      entry({ Detail: '[1]' }),
      entry({ Source: '' }),
      entry({ DetailType: 't'.repeat(129) }),
      entry({ EventBusName: 'unknown' }),
    ]);
    const { FailedEntryCount, Entries = [] } = await answer();
    expect(FailedEntryCount).toBe(4);
    expect(Entries.map(({ ErrorCode }) => ErrorCode)).toEqual([
      undefined,
      'MalformedDetail',
      'MalformedDetail',
      'InvalidArgument',
      'InvalidArgument',
      undefined,
    ]);
    expect(server.events).toMatchObject([{ EventBusName: 'default', EventId: Entries[0]?.EventId }]);
  });

  test('a caller that gives up on a stall is seen to go', async () => {
    const { answer, server } = await put([entry()]);
    server.on(bus.stall);
    const gone = answer().catch((error: unknown) => error);
    await until(() => server.calls.length === 1);
    await server.stop();
    expect(await gone).toBeInstanceOf(Error);
    await until(() => server.calls[0]?.ended === 'abandoned');
  });
});
