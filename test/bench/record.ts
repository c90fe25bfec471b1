// What recording costs the business transaction that does it.

import { randomUUID } from 'node:crypto';
import { recordEvents } from '../../functions/outbox/record.ts';
import { connect } from '../../functions/shared/database.ts';
import { payloadText } from './contenders/contender.ts';
import { sideBySide, type Bench, type Benchmark } from './harness/bench.ts';
import { meter, summaryOf } from './harness/meter.ts';
import { figure, spreadText } from './harness/stats.ts';

const WAYS = [
  { events: 0, keyed: false },
  { events: 1, keyed: false },
  { events: 1, keyed: true },
  { events: 10, keyed: false },
  { events: 100, keyed: false },
  { events: 100, keyed: true },
] as const;
type Way = (typeof WAYS)[number];

/** `npm run bench -- record` */
export const record: Benchmark = async (bench) => {
  const transactions = bench.pick(5, 300, 2_000);
  const repetitions = bench.pick(1, 3, 3);
  const all = await sideBySide(WAYS, repetitions, (way) => measure(bench, way, transactions));
  const alone = summaryOf(all.get(WAYS[0]) ?? []);
  return {
    tables: [
      {
        title: 'What recording adds to a transaction that writes one order',
        columns: [
          'events',
          'ordering key',
          'ms/transaction',
          'added ms',
          'added µs: Node',
          'added µs: PostgreSQL',
        ],
        rows: [...all].map(([{ events, keyed }, measured]) => {
          const { milliseconds, nodeMicros, postgresMicros } = summaryOf(measured);
          return [
            String(events),
            keyed ? 'one each' : 'none',
            spreadText(milliseconds),
            figure(milliseconds.median - alone.milliseconds.median),
            figure(nodeMicros.median - alone.nodeMicros.median),
            figure(postgresMicros.median - alone.postgresMicros.median),
          ];
        }),
        note: `${transactions} transactions of each, one after another, ${repetitions} repetitions, interleaved; payloads of 300 B.`,
      },
    ],
    data: { ways: [...all].map(([way, measured]) => ({ ...way, ...summaryOf(measured) })) },
  };
};

async function measure(bench: Bench, { events, keyed }: Way, transactions: number) {
  const database = await bench.postgres.create();
  const prisma = connect({ databaseUrl: database.url, poolSize: 1 });
  const once = () =>
    prisma.$transaction(async (tx) => {
      await tx.order.createMany({ data: [{ id: randomUUID(), sku: 'SKU-17', quantity: 2 }] });
      const drafts = Array.from({ length: events }, (_, n) => ({
        source: '/orders',
        type: 'order.placed',
        destinations: ['stock'],
        payload: JSON.parse(payloadText(n)) as object,
        ...(keyed && { orderingKey: randomUUID() }),
      }));
      await recordEvents(tx, drafts);
    });
  for (let n = 0; n < 10; n += 1) await once();
  await database.settle();
  const metered = await meter(bench, transactions, async () => {
    for (let n = 0; n < transactions; n += 1) await once();
  });
  await prisma.$disconnect();
  await database.drop();
  return metered;
}
