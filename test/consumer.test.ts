import { SendMessageCommand } from '@aws-sdk/client-sqs';
// Promise 4, effect once: the ledger row and the effect commit together or not at all, whatever happens in between.
// Promise 5 (poison stays alone) is in consumer-poison.test.ts.

import { PrismaPg } from '@prisma/adapter-pg';
import type { SQSRecord } from 'aws-lambda';
import { randomUUID } from 'node:crypto';
import { beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { PrismaClient } from '../prisma/client/client.ts';
import { applyOne, type Applicable, type Ledger } from '../functions/consumer/apply.ts';
import { placeOrder } from '../functions/orders/place.ts';
import { writeEnvelope } from '../functions/outbox/envelope.ts';
import { recordEvents } from '../functions/outbox/record.ts';
import { relayConfig } from '../functions/relay/config.ts';
import { relay } from '../functions/relay/relay.ts';
import { storeOf, type TransactionClient } from '../functions/shared/store.ts';
import { reserveStock } from '../functions/stock/reserve.ts';
import { afterwards } from './support/cleanup.ts';
import { claimSome } from './support/relay.ts';
import {
  again,
  captureReports,
  contextWith,
  createConsumerDatabase,
  emptyConsumerDatabase,
  eventIdOf,
  gate,
  ledgerAndEffects,
  noteEffect,
  onceEach,
  orderRecord,
  orderRecords,
  receiveRecords,
  recordOf,
  startConsumer,
  type Reported,
  type TestConsumerOptions,
  type Tx,
} from './support/consumer.ts';
import { createPrisma, type TestDatabase } from './support/database.ts';
import * as knobs from './support/knobs.ts';
import { startScriptedSqs, type ScriptedSqs } from './support/scripted-sqs.ts';
import { startTcpProxy } from './support/tcp-proxy.ts';
import { soon, until } from './support/wait.ts';

const SKU = 'SKU-17';
/** The seed calls it EVENT-23; ids are UUIDs. */
const EVENT_23 = '00000000-0000-4000-8000-000000000023';

/** For what must come, however busy the machine is. */
const PATIENT = { within: 15_000 };

let shared: TestDatabase;
/** The shared one, emptied, or the test's own. */
let db: TestDatabase;
let queues: ScriptedSqs;
let reports: Reported[];

beforeAll(async () => {
  shared = await createConsumerDatabase();
});

beforeEach(async () => {
  db = shared;
  await emptyConsumerDatabase(db);
  queues = await startScriptedSqs({ queues: { stock: {}, dead: {}, tick: {} } });
  reports = captureReports();
});

/** For a test that changes tables. */
const ownDatabase = async () => {
  db = await createConsumerDatabase();
};

type Options = Partial<TestConsumerOptions>;
const start = (options: Options = {}) => startConsumer({ db, queues, ...options });

const reserving: Options = { effects: { 'order.placed': (tx, { data }) => reserveStock(tx, data) } };
const stockUp = (sku: string, available: number) =>
  db.sql('INSERT INTO stock_balance VALUES ($1, $2)', [sku, available]);
const available = async (sku = SKU) =>
  (await db.sql('SELECT available FROM stock_balance WHERE sku = $1', [sku]))[0]?.['available'];
const ledger = async () =>
  (await db.sql<{ id: string }>('SELECT event_id::text AS id FROM applied_event ORDER BY 1')).map(
    ({ id }) => id,
  );
const batches = () => reports.filter(({ event }) => event === 'consumer.batch');

/** A session of another consumer waits for a row lock: it has begun, and cannot go on before the first one ends. */
const someoneWaitsForALock = () =>
  until(
    async () =>
      (
        await db.sql(
          "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
        )
      ).length > 0,
    { ...PATIENT, message: 'the other consumer waits' },
  );

/** Delivers again until nothing fails: the pool may learn late that a session of its own has died. */
const redeliver = (deliver: (records: SQSRecord[]) => Promise<string[]>, records: SQSRecord[]) =>
  until(async () => (await deliver(records.map(again))).length === 0, {
    ...PATIENT,
    message: 'the redelivery succeeds',
  });

const nobodyIdlesInTransaction = () =>
  until(async () => (await knobs.sessions(db)).every(({ state }) => state === 'idle'), {
    ...PATIENT,
    message: 'every session is idle, outside a transaction',
  });

/** A tick of the relay, as Lambda invokes it. */
async function tickOnce(prisma: PrismaClient) {
  for (const [key, value] of Object.entries(queues.env)) vi.stubEnv(key, value);
  afterwards(() => vi.unstubAllEnvs());
  const destinations = { stock: { kind: 'sqs', queueUrl: queues.queueUrl('stock') } };
  const config = relayConfig({
    DATABASE_URL: db.url,
    OUTBOX_DESTINATIONS: JSON.stringify(destinations),
  });
  return relay({ prisma, config })({}, contextWith(25_000));
}

/** A consumer whose effect says when it has been reached, and then waits. */
function heldInItsEffect(options: Options, end: () => Promise<unknown> = () => Promise.resolve()) {
  const [inEffect, mayEnd] = [gate(), gate()];
  const effect = async (tx: Tx, event: { id: string }): Promise<void> => {
    await noteEffect(tx, event);
    inEffect.resolve();
    await mayEnd.promise;
    await end();
  };
  const { deliver } = start({ ...options, effects: { 'order.placed': effect } });
  return { deliver, inEffect: soon(inEffect.promise, PATIENT), mayEnd };
}

/** A consumer with a connection that can be cut, and three events for it. */
async function throughAProxy(transactionPer: 'record' | 'batch') {
  const proxy = await startTcpProxy(db.url);
  const { deliver } = start({ db: proxy, transactionPer });
  return { proxy, deliver, records: orderRecords(3) };
}

const applicable = (effect: Applicable['effect']): Applicable => ({
  event: { id: randomUUID(), source: '/orders', type: 'order.placed', data: {} },
  effect,
});
/** Over a pool of one whose connection is open, so that the limit meets what the test means it to meet. */
const ledgerOver = async (url: string, timeoutMs: number): Promise<Ledger> => {
  const prisma = createPrisma(url, { max: 1 });
  await prisma.$queryRaw`SELECT 1`;
  // The invocation has time enough; Prisma's limit is what runs out.
  const limits = { timeoutMs, timeLeft: () => 60_000 };
  return { consumer: 'stock', prisma, ...limits };
};

const transactionsUsed = async () =>
  (await db.sql('SELECT count(DISTINCT xmin::text) AS n FROM applied_event'))[0]?.['n'];

describe('the story of EVENT-23 and SKU-17', () => {
  const order = orderRecord({ id: EVENT_23, data: { orderId: 'ORDER-23', sku: SKU, quantity: 2 } });

  test('an event delivered three times takes its two units once: 10 → 8', async () => {
    await stockUp(SKU, 10);
    const { deliver } = start(reserving);
    for (const record of [order, again(order), again(again(order))])
      expect(await deliver([record])).toEqual([]);
    expect(await available()).toBe(8);
    expect(await ledger()).toEqual([EVENT_23]);
    expect(batches()).toMatchObject([
      { applied: 1, duplicates: 0 },
      { applied: 0, duplicates: 1 },
      { applied: 0, duplicates: 1 },
    ]);
    expect(queues.stored('dead')).toEqual([]);
  });

  test('an unknown SKU keeps no ledger row, so the redelivery after the item exists is not taken for a duplicate', async () => {
    const { deliver } = start(reserving);
    expect(await deliver([order])).toEqual([order.messageId]);
    expect(await ledger()).toEqual([]);
    expect(reports).toContainEqual(
      expect.objectContaining({ outcome: 'retry', reason: expect.stringContaining('UnknownSku: SKU-17') }),
    );
    await stockUp(SKU, 10);
    expect(await deliver([again(order)])).toEqual([]);
    expect(await deliver([again(again(order))])).toEqual([]);
    expect(await available()).toBe(8);
  });

  test('a shortage goes to the dead-letter queue at once, and what is left stays', async () => {
    await stockUp(SKU, 10);
    const { deliver } = start({ ...reserving, concurrency: 1 });
    const [first, second] = [6, 6].map((quantity, n) =>
      orderRecord({ data: { orderId: `ORDER-${n}`, sku: SKU, quantity } }),
    ) as [SQSRecord, SQSRecord];
    expect(await deliver([first, second])).toEqual([]);
    expect(await available()).toBe(4);
    expect(await ledger()).toEqual([eventIdOf(first)]);
    expect(queues.stored('dead')).toMatchObject([
      {
        body: second.body,
        attributes: {
          'outbox-reason': {
            StringValue: 'TerminalError: Shortage: order ORDER-1 wants 6 of SKU-17, 4 are left',
          },
        },
      },
    ]);
  });

  test('twenty orders at once for ten units: ten are served, none below zero', async () => {
    await stockUp(SKU, 10);
    const consumers = [start(reserving), start(reserving)];
    const orders = Array.from({ length: 20 }, (_, n) =>
      orderRecord({ data: { orderId: `ORDER-${n}`, sku: SKU, quantity: 1 } }),
    );
    const failed = await Promise.all(
      consumers.map(({ deliver }, n) => deliver(orders.slice(n * 10, n * 10 + 10))),
    );
    expect(failed).toEqual([[], []]);
    expect(await available()).toBe(0);
    expect(await ledger()).toHaveLength(10);
    expect(queues.stored('dead')).toHaveLength(10);
  });

  test('the table itself refuses an effect that would go below zero', async () => {
    await stockUp(SKU, 1);
    const { deliver } = start({
      effects: {
        'order.placed': (tx, { data }) =>
          tx.stockBalance.update({
            where: { sku: data.sku },
            data: { available: { decrement: data.quantity } },
          }),
      },
    });
    expect(await deliver([order])).toEqual([order.messageId]);
    expect(await available()).toBe(1);
    expect(await ledger()).toEqual([]);
  });

  // Seed "Spring outbox relay: claim, deliver, and acknowledge one event"; B6.
  test('the consumer commits before a relay that died has acknowledged: the second message finds the effect done', async () => {
    await stockUp(SKU, 10);
    const { deliver, prisma } = start(reserving);
    const { eventId } = await placeOrder(prisma, { orderId: 'ORDER-23', sku: SKU, quantity: 2 });
    const claim = await claimSome(storeOf(prisma));
    for (const event of claim.events)
      await queues
        .client()
        .send(
          new SendMessageCommand({ QueueUrl: queues.queueUrl('stock'), MessageBody: writeEnvelope(event) }),
        );
    // The relay is gone here; its lease runs out, and the next one sends again.
    expect(await deliver(await receiveRecords(queues))).toEqual([]);
    expect(await available()).toBe(8);
    await db.sql("UPDATE outbox_event SET lease_until = lease_until - interval '31 seconds'");
    expect(await tickOnce(prisma)).toMatchObject({ published: 1 });
    const second = await receiveRecords(queues);
    expect(second.map(eventIdOf)).toEqual([eventId]);
    expect(await deliver(second)).toEqual([]);
    expect(await available()).toBe(8);
    expect(await ledger()).toEqual([eventId]);
    expect(await db.sql("SELECT state, attempts FROM outbox_event WHERE destination = 'stock'")).toEqual([
      { state: 'PUBLISHED', attempts: 2 },
    ]);
  });
});

describe('the key of the ledger', () => {
  const id = randomUUID();

  test.each([
    ['the same event for another consumer', { name: 'billing' }, { id }],
    ['the same id from another source', { name: 'stock' }, { id, source: '/returns' }],
  ])('%s is not taken for a duplicate', async (_, options, event) => {
    await start().deliver([orderRecord({ id })]);
    expect(await start(options).deliver([orderRecord(event)])).toEqual([]);
    expect(await ledgerAndEffects(db)).toEqual([{ id, ledger: 2, effects: 2 }]);
  });

  test.each(['record', 'batch'] as const)(
    'the same id from two sources in one batch is two events (transaction per %s)',
    async (transactionPer) => {
      const records = ['/orders', '/returns'].map((source) => orderRecord({ id, source }));
      expect(await start({ transactionPer }).deliver(records)).toEqual([]);
      expect(await ledgerAndEffects(db)).toEqual([{ id, ledger: 2, effects: 2 }]);
    },
  );

  test('the same id in upper case is the same event', async () => {
    const { deliver } = start();
    expect(await deliver([orderRecord({ id: id.toUpperCase() })])).toEqual([]);
    expect(await ledgerAndEffects(db)).toEqual([{ id, ledger: 1, effects: 1 }]);
    expect(await deliver([orderRecord({ id })])).toEqual([]);
    expect(await ledgerAndEffects(db)).toEqual([{ id, ledger: 1, effects: 1 }]);
  });
});

// C7
describe('two consumers with one event id, both begun before either commits', () => {
  test.each(['record', 'batch'] as const)(
    'the second waits and finds a duplicate (transaction per %s)',
    async (transactionPer) => {
      const record = orderRecord();
      const first = heldInItsEffect({ transactionPer });
      const firstAnswer = first.deliver([record]);
      await first.inEffect;
      const secondAnswer = start({ transactionPer }).deliver([again(record)]);
      await someoneWaitsForALock();
      first.mayEnd.resolve();
      expect(await Promise.all([firstAnswer, secondAnswer])).toEqual([[], []]);
      expect(await ledgerAndEffects(db)).toEqual(onceEach(record));
      expect(batches()).toContainEqual(expect.objectContaining({ applied: 1, duplicates: 0 }));
      expect(batches()).toContainEqual(expect.objectContaining({ applied: 0, duplicates: 1 }));
    },
  );

  test('when the first rolls back, the second applies it', async () => {
    const record = orderRecord();
    const first = heldInItsEffect({}, () => Promise.reject(new Error('changed its mind')));
    const firstAnswer = first.deliver([record]);
    await first.inEffect;
    const secondAnswer = start().deliver([again(record)]);
    await someoneWaitsForALock();
    first.mayEnd.resolve();
    expect(await firstAnswer).toEqual([record.messageId]);
    expect(await secondAnswer).toEqual([]);
    expect(await ledgerAndEffects(db)).toEqual(onceEach(record));
  });

  test.each(['record', 'batch'] as const)(
    'the same event twice in one batch over a pool of one ends, without a deadlock (transaction per %s)',
    async (transactionPer) => {
      const record = orderRecord();
      const { deliver } = start({ transactionPer, pool: 1 });
      const answer = deliver([record, { ...record, messageId: randomUUID() }]);
      expect(await soon(answer, PATIENT)).toEqual([]);
      expect(await ledgerAndEffects(db)).toEqual(onceEach(record));
      expect(batches()).toMatchObject([{ applied: 1, duplicates: 1 }]);
    },
  );
});

describe('what another session sees', () => {
  test('neither the ledger row nor the effect, until both', async () => {
    const seen: unknown[] = [];
    const effect = async (tx: Tx, event: { id: string }): Promise<void> => {
      seen.push(await ledgerAndEffects(db));
      await noteEffect(tx, event);
      seen.push(await ledgerAndEffects(db));
    };
    const record = orderRecord();
    await start({ effects: { 'order.placed': effect } }).deliver([record]);
    expect(seen).toEqual([[], []]);
    expect(await ledgerAndEffects(db)).toEqual(onceEach(record));
  });

  test('never one without the other, while forty events are applied and every third fails at first', async () => {
    const failing = new Set<string>();
    const effect = async (tx: Tx, event: { id: string }): Promise<void> => {
      await noteEffect(tx, event);
      if (failing.delete(event.id)) throw new Error('not this time');
    };
    const records = orderRecords(40);
    for (const [n, record] of records.entries()) if (n % 3 === 0) failing.add(eventIdOf(record));
    const { deliver } = start({ effects: { 'order.placed': effect } });
    const over = new AbortController();
    let looks = 0;
    const halves: unknown[] = [];
    const onlooker = (async () => {
      for (; !over.signal.aborted; looks++)
        halves.push(...(await ledgerAndEffects(db)).filter((row) => row.ledger !== row.effects));
    })();
    const failed = (await Promise.all([0, 10, 20, 30].map((n) => deliver(records.slice(n, n + 10))))).flat();
    expect(failed).toHaveLength(14);
    expect(await deliver(records.filter(({ messageId }) => failed.includes(messageId)).map(again))).toEqual(
      [],
    );
    over.abort();
    await onlooker;
    expect(halves).toEqual([]);
    expect(looks).toBeGreaterThan(3);
    expect(await ledgerAndEffects(db)).toEqual(onceEach(...records));
  });
});

// C8
describe('the database session dies', () => {
  test.each([
    ['after the ledger insert', 'before'],
    ['after the effect', 'after'],
  ])('%s: nothing is kept, and the redelivery applies it', async (_, when) => {
    let deaths = 0;
    const dieOnce = async () => {
      if (deaths === 0)
        deaths = await knobs.terminateSessions(db, ({ state }) => state === 'idle in transaction');
    };
    const effect = async (tx: Tx, event: { id: string }): Promise<void> => {
      if (when === 'before') await dieOnce();
      await noteEffect(tx, event);
      if (when === 'after') await dieOnce();
    };
    const record = orderRecord();
    const { deliver } = start({ effects: { 'order.placed': effect } });
    expect(await deliver([record])).toEqual([record.messageId]);
    expect(deaths).toBe(1);
    expect(await ledgerAndEffects(db)).toEqual([]);
    await redeliver(deliver, [record]);
    expect(await ledgerAndEffects(db)).toEqual(onceEach(record));
  });

  test.each(['record', 'batch'] as const)(
    'before COMMIT reaches the server: nothing is kept (transaction per %s)',
    async (transactionPer) => {
      const { deliver, proxy, records } = await throughAProxy(transactionPer);
      proxy.once(/^COMMIT/, 'cut');
      const failed = await deliver(records);
      // With one transaction for all, the fallback already is the second try.
      expect(failed).toHaveLength(transactionPer === 'batch' ? 0 : 1);
      expect(await ledgerAndEffects(db)).toEqual(
        onceEach(...records.filter(({ messageId }) => !failed.includes(messageId))),
      );
      await redeliver(deliver, records);
      expect(await ledgerAndEffects(db)).toEqual(onceEach(...records));
    },
  );

  test.each(['record', 'batch'] as const)(
    'after COMMIT, before its answer arrives: all is kept, and trying again changes nothing (transaction per %s)',
    async (transactionPer) => {
      const { deliver, proxy, records } = await throughAProxy(transactionPer);
      const cut = proxy.once(/^COMMIT/, 'cutAnswer');
      const failed = await deliver(records);
      await soon(cut.reached, PATIENT);
      expect(failed).toHaveLength(transactionPer === 'batch' ? 0 : 1);
      expect(await ledgerAndEffects(db)).toEqual(onceEach(...records));
      await redeliver(deliver, records);
      expect(await ledgerAndEffects(db)).toEqual(onceEach(...records));
    },
  );

  test('in the middle of COMMIT: nothing is kept', async () => {
    await ownDatabase();
    await db.sql(`CREATE FUNCTION slow_commit() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN PERFORM pg_sleep(20); RETURN NULL; END $$`);
    await db.sql(`CREATE CONSTRAINT TRIGGER slow_commit AFTER INSERT ON effect DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION slow_commit()`);
    const record = orderRecord();
    const { deliver } = start();
    const answer = deliver([record]);
    await until(
      () => knobs.terminateSessions(db, ({ state, query }) => state === 'active' && query === 'COMMIT'),
      {
        ...PATIENT,
        message: 'a session is committing',
      },
    );
    expect(await soon(answer, PATIENT)).toEqual([record.messageId]);
    expect(await ledgerAndEffects(db)).toEqual([]);
    await db.sql('DROP TRIGGER slow_commit ON effect');
    await redeliver(deliver, [record]);
    expect(await ledgerAndEffects(db)).toEqual(onceEach(record));
  });

  test('COMMIT is refused: nothing is kept', async () => {
    await ownDatabase();
    await knobs.raiseOn(db, { table: 'effect', sqlState: '40001', at: 'commit' });
    const record = orderRecord();
    const { deliver } = start();
    expect(await deliver([record])).toEqual([record.messageId]);
    expect(await ledgerAndEffects(db)).toEqual([]);
    await redeliver(deliver, [record]);
    expect(await ledgerAndEffects(db)).toEqual(onceEach(record));
  });
});

describe('an effect that fails', () => {
  // C9: decided by the row count, never by an error's code or text.
  test("on a unique key of the user's own table is no duplicate", async () => {
    await ownDatabase();
    await db.sql('CREATE UNIQUE INDEX effect_note_once ON effect (note)');
    await db.sql("INSERT INTO effect VALUES (gen_random_uuid(), 'taken')");
    const record = orderRecord();
    const { deliver } = start({ effects: { 'order.placed': (tx, event) => noteEffect(tx, event, 'taken') } });
    expect(await deliver([record])).toEqual([record.messageId]);
    expect(await ledger()).toEqual([]);
    expect(batches()).toMatchObject([{ applied: 0, duplicates: 0, retried: 1 }]);
    await db.sql('DELETE FROM effect');
    expect(await deliver([again(record)])).toEqual([]);
    expect(await ledgerAndEffects(db)).toEqual(onceEach(record));
  });

  // C9, as Prisma reports it: P2002.
  test("on a unique key through Prisma's own create is no duplicate", async () => {
    await db.sql("INSERT INTO orders VALUES ('ORDER-1', 'SKU-17', 1)");
    const record = orderRecord();
    const { deliver } = start({
      effects: {
        'order.placed': (tx) => tx.order.create({ data: { id: 'ORDER-1', sku: SKU, quantity: 1 } }),
      },
    });
    expect(await deliver([record])).toEqual([record.messageId]);
    expect(await ledger()).toEqual([]);
  });

  // D4: PostgreSQL turns the COMMIT of an aborted transaction into ROLLBACK and says so to nobody.
  test.each(['record', 'batch'] as const)(
    'and swallows its error is not reported as applied (transaction per %s)',
    async (transactionPer) => {
      await db.sql("INSERT INTO orders VALUES ('ORDER-1', 'SKU-17', 1)");
      const record = orderRecord();
      const { deliver } = start({
        transactionPer,
        effects: {
          'order.placed': (tx) =>
            tx.order.create({ data: { id: 'ORDER-1', sku: SKU, quantity: 1 } }).catch(() => undefined),
        },
      });
      expect(await deliver([record])).toEqual([record.messageId]);
      expect(await ledger()).toEqual([]);
    },
  );

  // D2
  test('in a statement it forgot to await is not reported as applied', async () => {
    await db.sql("INSERT INTO orders VALUES ('ORDER-1', 'SKU-17', 1)");
    const record = orderRecord();
    const { deliver } = start({
      effects: {
        'order.placed': async (tx, event) => {
          await noteEffect(tx, event);
          tx.$executeRaw`INSERT INTO orders VALUES ('ORDER-1', 'SKU-17', 1)`.then(
            () => undefined,
            () => undefined,
          );
        },
      },
    });
    expect(await deliver([record])).toEqual([record.messageId]);
    expect(await ledgerAndEffects(db)).toEqual([]);
  });

  test('after a savepoint of its own went wrong and was rolled back to, is applied: that is no failure', async () => {
    await db.sql("INSERT INTO orders VALUES ('ORDER-1', 'SKU-17', 1)");
    const record = orderRecord();
    const { deliver } = start({
      effects: {
        'order.placed': async (tx, event) => {
          await tx.$executeRawUnsafe('SAVEPOINT try');
          await tx.order.create({ data: { id: 'ORDER-1', sku: SKU, quantity: 1 } }).catch(() => undefined);
          await tx.$executeRawUnsafe('ROLLBACK TO SAVEPOINT try');
          await noteEffect(tx, event);
        },
      },
    });
    expect(await deliver([record])).toEqual([]);
    expect(await ledgerAndEffects(db)).toEqual(onceEach(record));
  });
});

describe('an effect that does not keep to its transaction', () => {
  test.each(['ROLLBACK', 'COMMIT', 'ROLLBACK AND CHAIN', 'COMMIT AND CHAIN'])(
    'and runs %s itself is reported, with the reason',
    async (statement) => {
      const ending = async (tx: Tx, event: { id: string }): Promise<void> => {
        await noteEffect(tx, event);
        await tx.$executeRawUnsafe(statement);
      };
      const record = orderRecord();
      const { deliver } = start({ effects: { 'order.placed': ending } });
      expect(await deliver([record])).toEqual([record.messageId]);
      expect(reports).toContainEqual(
        expect.objectContaining({
          event: 'consumer.record',
          outcome: 'retry',
          reason: expect.stringContaining('ended the transaction'),
        }),
      );
      await nobodyIdlesInTransaction();
    },
  );

  test('and records an event through the root client is reported; the event does not exist', async () => {
    const record = orderRecord();
    const consumer = start({
      effects: {
        'order.placed': () =>
          recordEvents(consumer.prisma as unknown as TransactionClient, [
            { type: 'stock.reserved', payload: {}, source: '/stock', destinations: ['billing'] },
          ]),
      },
    });
    expect(await consumer.deliver([record])).toEqual([record.messageId]);
    expect(await ledger()).toEqual([]);
    expect(await db.sql('SELECT 1 FROM outbox_event')).toEqual([]);
    expect(reports).toContainEqual(
      expect.objectContaining({ reason: expect.stringContaining('expected the transaction client') }),
    );
  });

  test('and waits for the root client over a pool of one is reported instead of waiting for itself for ever', async () => {
    const adapter = new PrismaPg({ connectionString: db.url, max: 1, connectionTimeoutMillis: 300 });
    const prisma = new PrismaClient({ adapter });
    afterwards(() => prisma.$disconnect());
    const record = orderRecord();
    const { deliver } = start({
      prisma,
      effects: { 'order.placed': () => prisma.stockBalance.findMany() },
    });
    expect(await soon(deliver([record]), PATIENT)).toEqual([record.messageId]);
    expect(await ledger()).toEqual([]);
    await nobodyIdlesInTransaction();
  });
});

describe('the transaction runs out of time', () => {
  // Prisma's own limits are 2 s of waiting and 5 s in all; the invocation's time is what counts.
  test('of Prisma, but not of the invocation: a record that waits over two seconds for a connection is applied', async () => {
    const { deliver } = start({
      pool: 1,
      effects: {
        'order.placed': async (tx, event) => {
          await tx.$executeRaw`SELECT pg_sleep(0.75)`;
          await noteEffect(tx, event);
        },
      },
    });
    const records = orderRecords(4);
    expect(await deliver(records)).toEqual([]);
    expect(await ledgerAndEffects(db)).toEqual(onceEach(...records));
  });

  // D1: the answer to BEGIN comes after Prisma has given up on it.
  test('while it begins: the connection is not left inside a transaction that swallows later writes', async () => {
    const proxy = await startTcpProxy(db.url);
    const over = await ledgerOver(proxy.url, 300);
    const begin = proxy.once(/^BEGIN/, 'holdAnswer');
    const late = await soon(applyOne(over, applicable(noteEffect)), PATIENT);
    expect(late).toMatchObject({ kind: 'retry', reason: expect.stringContaining('P2028') });
    begin.release();
    const event = applicable(noteEffect);
    const answer = applyOne({ ...over, timeoutMs: 10_000 }, event);
    expect(await soon(answer, PATIENT)).toEqual({ kind: 'applied' });
    await soon(
      storeOf(over.prisma).execute("INSERT INTO orders VALUES ('BY-THE-ROOT-CLIENT', 'SKU-17', 1)", []),
      PATIENT,
    );
    expect(await db.sql('SELECT id FROM orders')).toEqual([{ id: 'BY-THE-ROOT-CLIENT' }]);
    expect(await ledgerAndEffects(db)).toEqual([{ id: event.event.id, ledger: 1, effects: 1 }]);
    await nobodyIdlesInTransaction();
  });

  // D2
  test('in the ledger insert: neither row exists, then or once the statement has ended', async () => {
    await ownDatabase();
    const delayed = await knobs.delayOn(db, { table: 'applied_event', seconds: 2 });
    const outcome = await applyOne(await ledgerOver(db.url, 1_000), applicable(noteEffect));
    expect(outcome).toMatchObject({ kind: 'retry' });
    expect(await ledgerAndEffects(db)).toEqual([]);
    await nobodyIdlesInTransaction();
    expect(await ledgerAndEffects(db)).toEqual([]);
    expect(await delayed()).toBe(1);
  });

  // D2
  test('in the effect: what it still does afterwards is refused, not committed on its own', async () => {
    const [noted, expired, finished] = [gate(), gate(), gate()];
    let refusal: unknown;
    const slow = applicable(async (tx, event) => {
      await noteEffect(tx, event, 'in time');
      noted.resolve();
      await expired.promise;
      await noteEffect(tx, event, 'too late').catch((error: unknown) => (refusal = error));
      finished.resolve();
    });
    const answer = applyOne(await ledgerOver(db.url, 1_500), slow);
    await soon(noted.promise, PATIENT);
    // Prisma's time limit has ended it.
    await nobodyIdlesInTransaction();
    expired.resolve();
    expect(await soon(answer, PATIENT)).toMatchObject({
      kind: 'retry',
      reason: expect.stringContaining('P2028'),
    });
    await soon(finished.promise, PATIENT);
    expect(refusal).toMatchObject({ code: 'P2028' });
    await nobodyIdlesInTransaction();
    expect(await ledgerAndEffects(db)).toEqual([]);
  });

  // D2
  test('in a statement the effect forgot to await: it is refused after the transaction has ended', async () => {
    const [committed, refused] = [gate(), Promise.withResolvers<unknown>()];
    const forgetful = applicable(async (tx, event) => {
      committed.promise.then(() => noteEffect(tx, event, 'forgotten')).then(refused.resolve, refused.resolve);
    });
    expect(await applyOne(await ledgerOver(db.url, 10_000), forgetful)).toEqual({ kind: 'applied' });
    committed.resolve();
    expect(await soon(refused.promise, PATIENT)).toMatchObject({ code: 'P2028' });
    expect(await db.sql('SELECT * FROM effect')).toEqual([]);
  });
});

describe('one transaction for a batch', () => {
  test.each([
    ['batch', 1],
    ['record', 10],
  ] as const)('per %s: ten events in %i', async (transactionPer, transactions) => {
    const records = orderRecords(10);
    expect(await start({ transactionPer }).deliver(records)).toEqual([]);
    expect(await ledgerAndEffects(db)).toEqual(onceEach(...records));
    expect(await transactionsUsed()).toBe(transactions);
  });

  test('takes the events in the order given, and those applied before, or twice in it, once', async () => {
    const applied: string[] = [];
    const effect = async (tx: Tx, event: { id: string }): Promise<void> => {
      applied.push(event.id);
      await noteEffect(tx, event);
    };
    const { deliver } = start({ transactionPer: 'batch', effects: { 'order.placed': effect } });
    const [before, ...fresh] = orderRecords(4) as [SQSRecord, ...SQSRecord[]];
    await deliver([before]);
    const twice = { ...(fresh[1] as SQSRecord), messageId: randomUUID() };
    expect(await deliver([again(before), ...fresh, twice])).toEqual([]);
    expect(applied).toEqual([before, ...fresh].map(eventIdOf));
    expect(await ledgerAndEffects(db)).toEqual(onceEach(before, ...fresh));
    expect(batches().at(-1)).toMatchObject({ applied: 3, duplicates: 2 });
  });

  test('one event fails: the others are applied all the same, and nothing is half-applied', async () => {
    const records = orderRecords(5);
    const poison = records[2] as SQSRecord;
    const effect = async (tx: Tx, event: { id: string }): Promise<void> => {
      await noteEffect(tx, event);
      if (event.id === eventIdOf(poison)) throw new TypeError('cannot read properties of undefined');
    };
    const { deliver } = start({ transactionPer: 'batch', effects: { 'order.placed': effect } });
    expect(await deliver(records)).toEqual([poison.messageId]);
    expect(await ledgerAndEffects(db)).toEqual(onceEach(...records.filter((record) => record !== poison)));
    expect(reports).toContainEqual(expect.objectContaining({ event: 'consumer.fell_back', records: 5 }));
  });

  test('an effect that changes its data gets it unchanged on the second try', async () => {
    await stockUp(SKU, 10);
    const { deliver } = start({
      transactionPer: 'batch',
      effects: {
        'order.placed': async (tx, { data }) => {
          data.quantity += 1;
          await reserveStock(tx, data);
          if (data.orderId === 'POISON') throw new Error('after the change');
        },
      },
    });
    const good = orderRecord({ data: { orderId: 'GOOD', sku: SKU, quantity: 1 } });
    const poison = orderRecord({ data: { orderId: 'POISON', sku: SKU, quantity: 1 } });
    expect(await deliver([good, poison])).toEqual([poison.messageId]);
    expect(await available()).toBe(8);
  });

  test('two consumers with the same ten events in opposite order do not deadlock', async () => {
    const records = orderRecords(10);
    const consumers = [start({ transactionPer: 'batch' }), start({ transactionPer: 'batch' })];
    const answers = consumers.map(({ deliver }, n) =>
      deliver(n === 0 ? records : records.toReversed().map(again)),
    );
    expect(await Promise.all(answers)).toEqual([[], []]);
    expect(await ledgerAndEffects(db)).toEqual(onceEach(...records));
    expect(reports.filter(({ event }) => event === 'consumer.fell_back')).toEqual([]);
  });

  test('records that are no events do not keep the others from sharing it', async () => {
    const records = orderRecords(2);
    const bad = recordOf('not json');
    expect(await start({ transactionPer: 'batch' }).deliver([bad, ...records])).toEqual([]);
    expect(await ledgerAndEffects(db)).toEqual(onceEach(...records));
    expect(await transactionsUsed()).toBe(1);
    expect(queues.stored('dead')).toHaveLength(1);
  });
});
