// From commit to published, and to applied, at a steady pace.

import { setTimeout as sleep } from 'node:timers/promises';
import { SQSClient } from '@aws-sdk/client-sqs';
import { Pool } from 'pg';
import { nudger } from '../../functions/outbox/nudge.ts';
import { recordEvents } from '../../functions/outbox/record.ts';
import { inScope } from '../support/cleanup.ts';
import { startProcess } from '../support/process.ts';
import { payloadText } from './contenders/contender.ts';
import { loadGraphile } from './contenders/graphile.ts';
import { startPgBoss } from './contenders/pg-boss.ts';
import type { Bench, Benchmark } from './harness/bench.ts';
import { AWS_ENVIRONMENT } from './harness/outside.ts';
import { hasPeers } from './harness/peers.ts';
import { pgClient } from './harness/pg-client.ts';
import { figure, quantile } from './harness/stats.ts';
import type { LatencyRequest, Seen } from './programs/latency.ts';

const WAYS: Readonly<Record<LatencyRequest['way'], string>> = {
  ours: 'ours, nudged',
  pgBoss: 'pg-boss, LISTEN/NOTIFY',
  graphile: 'graphile-worker, LISTEN/NOTIFY',
};
/** What has not arrived by then is counted as missing. */
const PATIENCE_MS = 10_000;
/** Of a server that handles many requests at once. */
const PAUSE_MS = 15;
const QUANTILES = [0.5, 0.9, 0.99, 1];

interface Measured {
  readonly way: string;
  readonly rate: number;
  /** Recorded a second, which a busy machine may keep below the rate. */
  readonly reached: number;
  readonly recorded: number;
  readonly published: number[];
  readonly applied: number[];
}

const cells = (values: number[]) =>
  QUANTILES.map((q) => (values.length === 0 ? '–' : figure(quantile(values, q))));

const KEPT_QUANTILES = [0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1];
const quantilesOf = (values: number[]) => KEPT_QUANTILES.map((q) => quantile(values, q));
/** Orders of a hundred articles, or every effect would wait for one row. */
const ARTICLES = 100;
const payloadOf = (id: string) => ({
  ...(JSON.parse(payloadText(0)) as object),
  orderId: id,
  sku: `SKU-${Number(id.split('-')[1]) % ARTICLES}`,
});

/** `npm run bench -- latency` */
export const latency: Benchmark = async (bench) => {
  const rates = bench.pick([20], [20, 200], [20, 200, 1_000]);
  const seconds = bench.pick(2, 10, 30);
  const ways: LatencyRequest['way'][] =
    bench.size !== 'tiny' && hasPeers() ? ['ours', 'pgBoss', 'graphile'] : ['ours'];
  const all: Measured[] = [];
  for (const rate of rates) {
    for (const way of ways) {
      const measured = await measure(bench, way, rate, seconds);
      all.push(measured);
      bench.progress(
        `${WAYS[way]} at ${rate}/s: p50 ${figure(quantile(measured.published, 0.5))} ms to published`,
      );
    }
  }
  return {
    tables: [
      {
        title: 'Milliseconds from commit to published, and to applied',
        columns: [
          '',
          'events/s asked',
          'reached',
          'published p50',
          'p90',
          'p99',
          'max',
          'applied p50',
          'p90',
          'p99',
          'max',
          'missing',
        ],
        rows: all.map(({ way, rate, reached, recorded, published, applied }) => {
          const missing = recorded - (way === WAYS.ours ? applied : published).length;
          return [
            way,
            String(rate),
            figure(reached),
            ...cells(published),
            ...cells(applied),
            String(missing),
          ];
        }),
        note: `${seconds} s each, one transaction an event. Ours: nudges of one server, ${PAUSE_MS} ms apart; two relays and five consumers, as the template has them, the relays in one process and the consumers in another.`,
      },
    ],
    data: {
      ways: all.map(({ way, rate, reached, published, applied }) => {
        return { way, rate, reached, published: quantilesOf(published), applied: quantilesOf(applied) };
      }),
    },
  };
};

async function measure(
  bench: Bench,
  way: LatencyRequest['way'],
  rate: number,
  seconds: number,
): Promise<Measured> {
  const database = await bench.postgres.create();
  const [stock, ticks] = [await bench.outside.createQueue(), await bench.outside.createQueue()];
  await database.sql(
    `INSERT INTO stock_balance SELECT 'SKU-' || n, 1000000000 FROM generate_series(0, ${ARTICLES - 1}) AS n`,
  );
  const endpoint = await bench.outside.endpoint(0);
  const measured = await inScope(async () => {
    const env = { ...AWS_ENVIRONMENT, AWS_ENDPOINT_URL: endpoint };
    const record = await recorderOf(way, database.url, ticks.queueUrl, endpoint);
    const parts: LatencyRequest['part'][] = way === 'ours' ? ['publish', 'apply'] : ['publish'];
    const children = parts.map((part) => {
      const child = startProcess(new URL('./programs/latency.ts', import.meta.url), { env });
      child.send({
        way,
        part,
        databaseUrl: database.url,
        queueUrl: stock.queueUrl,
        tickQueueUrl: ticks.queueUrl,
      } satisfies LatencyRequest);
      return child;
    });
    for (const child of children)
      await child.message((message) => (message as { kind?: string }).kind === 'ready', 30_000);
    const seen = () => children.flatMap(({ messages }) => messages);
    // Warms up: connections, plans, code.
    await pace(record.one, Math.min(rate, 100), bench.pick(1, 5, 5), 'WARM');
    const { committed, reached } = await pace(record.one, rate, seconds, 'ORDER');
    const waited = way === 'ours' ? 'applied' : 'published';
    const deadline = performance.now() + PATIENCE_MS;
    let times = timesOf(seen(), committed);
    while (times[waited].length < committed.size && performance.now() < deadline) {
      await sleep(100);
      times = timesOf(seen(), committed);
    }
    await record.close();
    return { way: WAYS[way], rate, reached, recorded: committed.size, ...times };
  });
  await stock.remove();
  await ticks.remove();
  await database.drop();
  return measured;
}

/** Records at a steady pace, without waiting for one another. @returns when each was committed */
async function pace(one: (id: string) => Promise<void>, rate: number, seconds: number, prefix: string) {
  const committed = new Map<string, number>();
  const underway: Promise<void>[] = [];
  const began = performance.now();
  for (let n = 0; n < rate * seconds; n += 1) {
    const early = began + (n * 1000) / rate - performance.now();
    if (early > 1) await sleep(early);
    const id = `${prefix}-${n}`;
    const note = () => void committed.set(id, performance.timeOrigin + performance.now());
    // What could not be recorded in time (a pool that is waited for too long) is not there; `reached` shows it.
    underway.push(one(id).then(note, () => undefined));
  }
  await Promise.all(underway);
  return { committed, reached: committed.size / ((performance.now() - began) / 1000) };
}

function timesOf(messages: readonly unknown[], committed: ReadonlyMap<string, number>) {
  const seen = messages.filter((message): message is Seen => (message as Seen).kind === 'seen');
  const since = (place: 'published' | 'applied') =>
    seen.flatMap((one) =>
      one[place].flatMap(([id, at]) => {
        const from = committed.get(id);
        return from === undefined ? [] : [Math.max(0, at - from)];
      }),
    );
  return { published: since('published'), applied: since('applied') };
}

/** Writes one event, and wakes whoever publishes it. */
async function recorderOf(way: LatencyRequest['way'], url: string, tickQueueUrl: string, endpoint: string) {
  if (way === 'ours') {
    const { client, pool } = pgClient(url, 10);
    const credentials = { accessKeyId: 'local', secretAccessKey: 'local' };
    const sqs = new SQSClient({ endpoint, region: 'us-east-1', credentials });
    const nudge = nudger({ sqs, tickQueueUrl, pauseMs: PAUSE_MS });
    const one = async (id: string) => {
      const draft = {
        source: '/orders',
        type: 'order.placed',
        destinations: ['stock'],
        payload: payloadOf(id),
      };
      await client.$transaction((tx) => recordEvents(tx, [draft]));
      void nudge();
    };
    return { one, close: () => pool.end() };
  }
  if (way === 'pgBoss') {
    const boss = await startPgBoss(url, { useListenNotify: true }, { notify: true });
    return {
      one: async (id: string) => void (await boss.send('outbox', payloadOf(id))),
      close: () => boss.stop(),
    };
  }
  await loadGraphile(url);
  const pool = new Pool({ connectionString: url, max: 10 });
  const add = "SELECT graphile_worker.add_job('outbox', $1::json)";
  return {
    one: async (id: string) => void (await pool.query(add, [payloadOf(id)])),
    close: () => pool.end(),
  };
}
