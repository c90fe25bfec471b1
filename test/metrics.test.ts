// Lines and metrics: the tables in the documents, what CloudWatch reads, what an idle tick costs, and what is never in them.

import type { Context } from 'aws-lambda';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { inspect, promisify } from 'node:util';
import { beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { orderEvents } from '../functions/events/order.ts';
import { measureBacklog } from '../functions/gauge/gauge.ts';
import { recordEvents } from '../functions/outbox/record.ts';
import { relay } from '../functions/relay/relay.ts';
import { TerminalError } from '../functions/shared/errors.ts';
import { METRICS } from '../functions/shared/metrics.ts';
import { LINES } from '../functions/shared/report.ts';
import { storeOf, type Store } from '../functions/shared/store.ts';
import type { PrismaClient } from '../prisma/client/client.ts';
import { afterwards } from './support/cleanup.ts';
import {
  bodyOf,
  captureLines,
  contextWith,
  createConsumerDatabase,
  noteEffect,
  orderRecord,
  recordOf,
  startConsumer,
  type Tx,
} from './support/consumer.ts';
import { createPrisma, openSession, type TestDatabase } from './support/database.ts';
import { dueIn, insertEvents, leased, parked, published } from './support/factories.ts';
import { destinationsOf, relaySettings } from './support/relay.ts';
import * as scripted from './support/scripted-sqs.ts';
import { startScriptedSqs, type ScriptedSqs } from './support/scripted-sqs.ts';

type Line = Record<string, unknown>;
type Embedded = Line & {
  _aws: {
    CloudWatchMetrics: {
      Namespace: string;
      Dimensions: string[][];
      Metrics: { Name: string; Unit: string }[];
    }[];
  };
};

/** CloudWatch's own part of a line. */
const embeddedIn = ({ _aws: { CloudWatchMetrics } }: Embedded) => CloudWatchMetrics;

let db: TestDatabase;
let prisma: PrismaClient;
let sqs: ScriptedSqs;
let written: string[];

beforeAll(async () => {
  db = await createConsumerDatabase();
  prisma = createPrisma(db.url, { max: 5 });
});

beforeEach(async () => {
  await db.sql('TRUNCATE applied_event, outbox_event, orders, effect');
  sqs = await startScriptedSqs({ queues: { stock: {}, dead: {} } });
  for (const [name, value] of Object.entries(sqs.env)) vi.stubEnv(name, value);
  afterwards(() => void vi.unstubAllEnvs());
  written = [];
  captureLines((line) => written.push(line));
});

const lines = () => written.map((text) => JSON.parse(text) as Line);
const logged = () => lines().filter((line) => 'event' in line);
const embedded = () => lines().filter((line): line is Embedded => '_aws' in line);
/** Values by metric and dimensions, such as `Released service=outbox-relay reason=Throttled`. */
const values = () =>
  Object.fromEntries(
    embedded().flatMap((line) =>
      embeddedIn(line).flatMap(({ Dimensions: [names = []], Metrics }) => {
        const dimensions = names.map((name) => `${name}=${String(line[name])}`);
        return Metrics.map(({ Name }) => [[Name, ...dimensions].join(' '), line[Name]]);
      }),
    ),
  );

const invocation = (leftMs?: number): Context => ({ ...contextWith(leftMs), awsRequestId: 'request-1' });
const startRelay = (settings: Parameters<typeof relaySettings>[1] = {}) =>
  relay({ prisma, config: relaySettings(destinationsOf(sqs, 'stock'), settings) });
const tick = (settings?: Parameters<typeof relaySettings>[1]) => startRelay(settings)({}, invocation());

/** Rows of a document's tables that begin with a name; the first cell is empty. */
const tableIn = async (document: string): Promise<string[][]> => {
  const text = await readFile(new URL(`../docs/${document}`, import.meta.url), 'utf8');
  return text
    .split('\n')
    .filter((row) => row.startsWith('| `'))
    .map((row) => row.split('|').map((cell) => cell.trim()));
};

/** A report that reads the environment anew. */
const fresh = async (variables: Record<string, string>) => {
  for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value);
  vi.resetModules();
  return import('../functions/shared/report.ts');
};

const measured = () => measureBacklog(storeOf(prisma));

/** All that was written, and what is thrown, as Lambda may write it. */
const everywhere = (...more: unknown[]) => written.join('\n') + inspect(more, { depth: 20 });

describe('the tables in the documents are those in the code', () => {
  test('docs/metrics.md has each metric, with its unit, its dimensions, when it is sent, what it means and what to do', async () => {
    const rows = await tableIn('metrics.md');
    expect(rows.map(([, name, unit, dimensions, sent]) => [name, unit, dimensions, sent])).toEqual(
      METRICS.map(({ name, unit, by, sent }) => [
        `\`${name}\``,
        unit,
        ['service', by ?? []].flat().join(', '),
        sent,
      ]),
    );
    for (const [, name, , , , meaning = '', action = ''] of rows) {
      expect([meaning.length > 10, action.length > 0], name).toEqual([true, true]);
    }
  });

  test('docs/operations.md has each line of the log, with its level', async () => {
    const rows = (await tableIn('operations.md')).filter(([, event = '']) => event.slice(1, -1) in LINES);
    const levels = Object.entries(LINES).map(([event, level]) => [
      `\`${event}\``,
      typeof level === 'string' ? level : 'warn, error',
    ]);
    expect(Object.fromEntries(rows.map(([, event, level]) => [event, level]))).toEqual(
      Object.fromEntries(levels),
    );
  });
});

describe('a tick', () => {
  test('is one line, with its invocation, and the metrics of what happened', async () => {
    await insertEvents(db, 13);
    sqs.next(
      scripted.fail({
        0: { code: 'InvalidMessageContents', senderFault: true },
        1: { code: 'InternalError' },
      }),
      // The SDK itself tries a second time.
      scripted.throttled(),
      scripted.throttled(),
    );
    await tick({ callsInFlight: 1 });
    expect(logged()).toEqual([
      {
        level: 'INFO',
        event: 'relay.tick',
        timestamp: expect.any(String),
        service: 'outbox-relay',
        cold_start: expect.any(Boolean),
        function_request_id: 'request-1',
        claimed: 13,
        published: 8,
        acknowledged: 8,
        fencedOut: 0,
        released: 4,
        releasedBy: { Unavailable: 1, Throttled: 3 },
        parked: 1,
        parkedBy: { Refused: 1 },
        unanswered: 0,
        oldestSeconds: expect.any(Number),
        milliseconds: expect.any(Number),
      },
    ]);
    expect(values()).toEqual({
      'Claimed service=outbox-relay': 13,
      'Published service=outbox-relay': 8,
      'Acknowledged service=outbox-relay': 8,
      'Released service=outbox-relay': 4,
      'Released service=outbox-relay reason=Unavailable': 1,
      'Released service=outbox-relay reason=Throttled': 3,
      'Parked service=outbox-relay': 1,
      'Parked service=outbox-relay reason=Refused': 1,
      'TickDuration service=outbox-relay': expect.any(Number),
      'OldestClaimed service=outbox-relay': expect.any(Number),
    });
  });

  test('that claims nothing costs one short line and no metric', async () => {
    await tick();
    expect(logged()).toMatchObject([{ event: 'relay.tick', claimed: 0, acknowledged: 0 }]);
    expect(written).toHaveLength(1);
    expect(written[0]?.length).toBeLessThan(400);
  });

  test('that is fenced out says so', async () => {
    await insertEvents(db, 2);
    sqs.on(() => async (exchange) => {
      await db.sql('UPDATE outbox_event SET claim_token = gen_random_uuid()');
      exchange.respond(200, await exchange.perform());
    });
    await tick();
    expect(values()).toMatchObject({
      'FencedOut service=outbox-relay': 2,
      'Published service=outbox-relay': 2,
    });
    expect(values()).not.toHaveProperty('Acknowledged service=outbox-relay');
  });
});

describe('a batch', () => {
  test('gives what became of its records by consumer, and a lag for each applied event', async () => {
    const ids = await prisma.$transaction((tx) =>
      recordEvents(
        tx,
        [1, 2].map((quantity) => ({
          type: 'order.placed',
          source: '/orders',
          destinations: ['stock'],
          payload: { orderId: `ORDER-${quantity}`, sku: 'SKU-17', quantity },
        })),
      ),
    );
    await db.sql(
      `UPDATE outbox_event SET recorded_at = now() - interval '90 seconds', due_at = now() - interval '90 seconds'`,
    );
    await tick();
    written.length = 0;
    const records = sqs.stored('stock').map(({ body }) => recordOf(body));
    const failing = orderRecord();
    const { deliver } = startConsumer({
      db,
      queues: sqs,
      effects: {
        'order.placed': async (tx: Tx, event: { id: string }) => {
          if (!ids.includes(event.id)) throw new Error('not now');
          await noteEffect(tx, event);
        },
      },
    });
    await deliver([...records, ...records.slice(0, 1), recordOf('garbage'), failing]);
    expect(values()).toEqual({
      'Applied service=outbox-relay consumer=stock': 2,
      'Duplicates service=outbox-relay consumer=stock': 1,
      'Terminal service=outbox-relay consumer=stock': 1,
      'Retried service=outbox-relay consumer=stock': 1,
      'ApplyLag service=outbox-relay consumer=stock': [expect.any(Number), expect.any(Number)],
    });
    for (const lag of values()['ApplyLag service=outbox-relay consumer=stock'] as number[]) {
      expect(lag).toBeGreaterThanOrEqual(90_000);
      expect(lag).toBeLessThan(150_000);
    }
    expect(logged().map(({ event, level }) => [event, level])).toEqual([
      ['consumer.record', 'ERROR'],
      ['consumer.record', 'WARN'],
      ['consumer.batch', 'INFO'],
    ]);
    expect(logged().at(-1)).not.toHaveProperty('applyLags');
  });

  test('counts the lag of an event that was recorded for later from that time on', async () => {
    await insertEvents(db, 1, {
      recordedInSeconds: -3_600,
      dueInSeconds: -90,
      payload: { orderId: 'ORDER-9', sku: 'SKU-17', quantity: 1 },
    });
    await tick();
    const { deliver } = startConsumer({ db, queues: sqs, effects: { 'order.placed': noteEffect } });
    written.length = 0;
    await deliver(sqs.stored('stock').map(({ body }) => recordOf(body)));
    const [lag] = [values()['ApplyLag service=outbox-relay consumer=stock']].flat();
    expect(lag).toBeGreaterThanOrEqual(90_000);
    expect(lag).toBeLessThan(150_000);
  });

  test('of more than a hundred keeps to what CloudWatch takes in one line, all of them by consumer', async () => {
    const { report } = await import('../functions/shared/report.ts');
    report('consumer.batch', {
      consumer: 'stock',
      applied: 250,
      applyLags: Array.from({ length: 250 }, (_, n) => n + 1),
    });
    const lags = embedded().map((line) => line['ApplyLag'] as number[]);
    expect(lags.map(({ length }) => length)).toEqual([100, 100, 50]);
    expect(lags.flat()).toEqual(Array.from({ length: 250 }, (_, n) => n + 1));
    for (const line of embedded()) {
      expect(line).toMatchObject({ service: 'outbox-relay', consumer: 'stock' });
      expect(embeddedIn(line)[0]?.Dimensions).toEqual([['service', 'consumer']]);
    }
  });
});

describe('the environment', () => {
  test.each([{ POWERTOOLS_METRICS_DISABLED: 'maybe' }, { POWERTOOLS_LOGGER_SAMPLE_RATE: 'x' }])(
    'that Powertools refuses costs the line, never the work it tells of: %o',
    async (variables) => {
      const said = vi.spyOn(console, 'error').mockReturnValue();
      const { report, nameInvocation } = await fresh(variables);
      nameInvocation({ awsRequestId: 'one' } as Context);
      report('relay.tick', { claimed: 1 });
      expect(said).toHaveBeenCalledWith(expect.stringMatching(/"event":"relay.tick".*not reported: .+/));
    },
  );

  test('names service and namespace', async () => {
    const { report } = await fresh({
      POWERTOOLS_SERVICE_NAME: 'shop',
      POWERTOOLS_METRICS_NAMESPACE: 'Shop/Outbox',
    });
    report('gauge.measured', { backlog: 0, backlogAgeSeconds: 0, parked: 0 });
    expect(logged()).toMatchObject([{ service: 'shop' }]);
    expect(embedded()[0]).toMatchObject({
      _aws: { CloudWatchMetrics: [{ Namespace: 'Shop/Outbox' }] },
      service: 'shop',
      Backlog: 0,
      BacklogAge: 0,
      ParkedEvents: 0,
    });
  });

  test('sets the level: metrics still go out', async () => {
    const { report } = await fresh({ POWERTOOLS_LOG_LEVEL: 'ERROR' });
    report('relay.tick', { claimed: 1 });
    report('consumer.record', { consumer: 'stock', outcome: 'retry' });
    report('consumer.record', { consumer: 'stock', outcome: 'terminal' });
    expect(logged()).toMatchObject([{ level: 'ERROR', outcome: 'terminal' }]);
    expect(embedded()).toHaveLength(1);
    expect(embedded().flatMap(embeddedIn)[0]?.Namespace).toBe('OutboxRelay');
  });

  test('says which invocation was cold', async () => {
    const { report, nameInvocation } = await fresh({ AWS_LAMBDA_INITIALIZATION_TYPE: 'on-demand' });
    for (const awsRequestId of ['first', 'second']) {
      nameInvocation({ awsRequestId } as Context);
      report('prune.done', { outbox: 1n });
    }
    expect(logged().map((line) => [line['function_request_id'], line['cold_start'], line['outbox']])).toEqual(
      [
        ['first', true, '1'],
        ['second', false, '1'],
      ],
    );
  });
});

describe('the gauge', () => {
  test('finds what is due behind many that are parked or not due yet, in any key', async () => {
    await db.sql(`INSERT INTO outbox_event (event_id, destination, source, type, payload, ordering_key, state, parked_at, park_reason)
      SELECT gen_random_uuid(), 'audit', '/orders', 'order.placed', '{}', n::text, 'PARKED', now(), 'Refused'
      FROM generate_series(1, 10001) AS n`);
    await db.sql(`INSERT INTO outbox_event (event_id, destination, source, type, payload, ordering_key, due_at)
      SELECT gen_random_uuid(), 'billing', '/orders', 'order.placed', '{}', n::text, now() + interval '1 hour'
      FROM generate_series(1, 10001) AS n`);
    await insertEvents(db, 1, { orderingKey: 'ORDER-1', dueInSeconds: -7_200 });
    const { backlog, backlogAgeSeconds, parked } = await measured();
    expect({ backlog, parked }).toEqual({ backlog: 1, parked: 10_001 });
    expect(backlogAgeSeconds).toBeGreaterThanOrEqual(7_200);
  });

  test('leaves out what waits behind a parked event of its key: a person is told of that one', async () => {
    const [head] = await insertEvents(db, 1, { orderingKey: 'ORDER-1', dueInSeconds: -60 });
    await db.sql(
      `UPDATE outbox_event SET state = 'PARKED', parked_at = now(), park_reason = 'Refused' WHERE event_id = $1`,
      [head?.eventId],
    );
    await insertEvents(db, 2, { orderingKey: 'ORDER-1', dueInSeconds: -50 });
    expect(await measured()).toMatchObject({ backlog: 0, backlogAgeSeconds: 0, parked: 1 });
  });

  test('counts what has fallen due in both lanes, under a lease or not, and nothing else', async () => {
    await insertEvents(db, 2, dueIn(-30));
    await insertEvents(db, 1, leased({ dueInSeconds: -60 }));
    await insertEvents(db, 3, { orderingKey: 'ORDER-1', dueInSeconds: -20 });
    await insertEvents(db, 4, dueIn(3_600));
    await insertEvents(db, 1, dueIn(3_600, { orderingKey: 'ORDER-2' }));
    await insertEvents(db, 5, published({ hoursAgo: 2 }));
    await insertEvents(db, 1, published({ hoursAgo: 2, orderingKey: 'ORDER-3' }));
    const gauge = await measured();
    expect(gauge).toMatchObject({ backlog: 6, parked: 0 });
    expect(gauge.backlogAgeSeconds).toBeGreaterThanOrEqual(60);
    expect(gauge.backlogAgeSeconds).toBeLessThan(90);
    expect(gauge.tableBytes).toBeGreaterThan(0);
  });

  // As for the relay's oldestSeconds: an outage must not look young, or empty, because back-off moved `due_at`.
  test('counts an event that waits for a retry, from when it first fell due', async () => {
    await insertEvents(db, 1, dueIn(240));
    await db.sql("UPDATE outbox_event SET waiting_since = now() - interval '500 seconds'");
    const { backlog, backlogAgeSeconds } = await measured();
    expect([backlog, Math.round(backlogAgeSeconds)]).toEqual([1, 500]);
  });

  test('counts parked events of both lanes apart from the backlog', async () => {
    await insertEvents(db, 2, parked());
    await insertEvents(db, 1, parked({ orderingKey: 'ORDER-1' }));
    expect(await measured()).toMatchObject({ backlog: 0, backlogAgeSeconds: 0, parked: 3 });
  });

  // What the planner takes at a million pending is in docs/plans.md; a small table it may well read through.
  test('has an index for each thing that it looks at, in the order in which it looks', async () => {
    const session = await openSession(db.url);
    for (const way of ['seqscan', 'bitmapscan', 'sort']) await session.query(`SET enable_${way} = off`);
    const plan: string[] = [];
    const explaining = {
      query: async <Row>(text: string) => {
        const { rows } = await session.query<Record<string, string>>(`EXPLAIN ${text}`);
        plan.push(...rows.map((row) => row['QUERY PLAN'] ?? ''));
        return [{}] as Row[];
      },
    };
    await measureBacklog(explaining as unknown as Store);
    const indexes = plan.flatMap((node) => / using (\w+)/.exec(node)?.[1] ?? []);
    expect(plan.filter((node) => /Seq Scan|Sort/.test(node))).toEqual([]);
    expect(indexes.toSorted()).toEqual([
      'outbox_event_due',
      'outbox_event_due',
      'outbox_event_due',
      'outbox_event_head',
      'outbox_event_parked',
      'outbox_event_parked',
      'outbox_event_pkey',
    ]);
  });

  test('of an empty table is zero', async () => {
    expect(await measured()).toMatchObject({ backlog: 0, backlogAgeSeconds: 0, parked: 0 });
  });
});

describe('payloads and secrets are in no line', () => {
  const MARKER = 'MARKER-4711';
  const SECRET = 'SECRET-0815';
  const marked = (more: object = {}) => ({
    orderId: MARKER,
    sku: MARKER,
    quantity: 1,
    note: MARKER,
    ...more,
  });

  test('whatever becomes of an event in the relay', async () => {
    const payloads = Array.from({ length: 4 }, (_, n) => ({ payload: marked({ n }) }));
    await insertEvents(db, 4, (n) => payloads[n] ?? {});
    sqs.next(
      scripted.fail({
        0: { code: 'InvalidMessageContents', senderFault: true },
        1: { code: 'InternalError' },
      }),
    );
    expect(await tick()).toMatchObject({ published: 2, released: 1, parked: 1 });
    await db.sql("UPDATE outbox_event SET due_at = now(), attempts = 99 WHERE state = 'PENDING'");
    expect(await tick()).toMatchObject({ parked: 1 });
    await insertEvents(db, 1, payloads[0]);
    sqs.next(scripted.httpError(503), scripted.httpError(503));
    expect(await tick()).toMatchObject({ released: 1 });
    expect(logged()).toHaveLength(3);
    expect(everywhere()).not.toContain(MARKER);
  });

  test('when the relay cannot reach its database', async () => {
    const databaseUrl = `postgresql://${SECRET}-user:${SECRET}@127.0.0.1:1/none`;
    const config = relaySettings(destinationsOf(sqs, 'stock'), { databaseUrl });
    const lost = relay({ prisma: createPrisma(databaseUrl), config });
    const error: unknown = await lost({}, invocation()).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(Error);
    expect(everywhere(error)).not.toContain(SECRET);
  });

  test.each(['record', 'batch'] as const)(
    'whatever becomes of a record in a consumer (transaction per %s)',
    async (transactionPer) => {
      const what = new Map<string, (tx: Tx) => Promise<unknown>>([
        ['applied', async () => undefined],
        ['terminal', () => Promise.reject(new TerminalError('Shortage: too few are left'))],
        ['retried', () => Promise.reject(new Error('not now'))],
        ['refused by PostgreSQL', (tx) => tx.$queryRawUnsafe(`SELECT $1::text::int`, `a\n${MARKER}"`)],
        ['out of range', (tx) => tx.$queryRawUnsafe(`SELECT ('99999999999' || $1::text)::int`, MARKER)],
        ['refused by Prisma', (tx) => tx.order.create({ data: { id: MARKER, wrong: MARKER } as never })],
        [
          'not unique',
          (tx) =>
            tx.order
              .createMany({ data: [1, 2].map(() => ({ id: MARKER, sku: MARKER, quantity: 1 })) })
              .catch(async (error: unknown) => Promise.reject(error)),
        ],
        ['against a CHECK', (tx) => tx.order.create({ data: { id: MARKER, sku: MARKER, quantity: -1 } })],
      ]);
      const bySku = new Map([...what.keys()].map((name, n) => [`SKU-${n}`, name]));
      const { deliver } = startConsumer({
        db,
        queues: sqs,
        transactionPer,
        events: orderEvents,
        effects: {
          'order.placed': (tx: Tx, { data }: { data: { sku: string } }) =>
            what.get(bySku.get(data.sku) ?? '')?.(tx) ?? Promise.resolve(),
        },
      });
      const records = [...bySku.keys()].map((sku) => orderRecord({ data: marked({ sku }) }));
      const failures = await deliver([
        ...records,
        recordOf(`{ ${MARKER}`),
        recordOf(bodyOf({ id: MARKER })),
        orderRecord({ data: marked({ quantity: MARKER }) }),
        orderRecord({ data: { orderId: MARKER, sku: { [MARKER]: MARKER } } }),
      ]);
      // All but the applied one and the five that are terminal.
      expect(failures).toHaveLength(6);
      expect(logged().filter(({ event }) => event === 'consumer.record')).toHaveLength(11);
      expect(everywhere()).not.toContain(MARKER);
    },
  );

  test.each([
    ['malformed', `mysql://user:${SECRET}@db/outbox`, {}],
    ['not a URL', `postgresql://user:${SECRET}@[db/outbox`, {}],
    [
      'in order, and another setting is not',
      `postgresql://user:${SECRET}@db/outbox`,
      { OUTBOX_POOL_SIZE: 'x' },
    ],
  ])('when it cannot start: the connection string is %s', async (_, DATABASE_URL, more) => {
    const script = `
      const { handler } = await import(${JSON.stringify(new URL('../functions/gauge/handler.ts', import.meta.url).href)});
      await handler({}, { awsRequestId: 'request-1' });`;
    const run = promisify(execFile)(process.execPath, ['--input-type=module', '--eval', script], {
      env: { ...process.env, DATABASE_URL, ...more },
    });
    const { code, stdout, stderr } = (await run.catch((error: unknown) => error)) as {
      code: number;
      stdout: string;
      stderr: string;
    };
    expect(code).toBe(1);
    expect(stderr).toMatch(/ConfigurationError|Invalid URL/);
    expect(stdout + stderr).not.toContain(SECRET);
  });
});
