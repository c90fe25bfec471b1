// Several pods, one poll window, the same rows.

import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'pg';
import { STRATEGIES, type RaceCounts } from './contenders/race.ts';
import { sideBySide, type Bench, type Benchmark } from './harness/bench.ts';
import { figure, median } from './harness/stats.ts';

/** All pods wake at the same moments, as a schedule wakes them; this stands for the seed's ten seconds. */
const WINDOW_MS = 100;
const BACKOFF_SECONDS = 300;
/** Back-offs waited for (on a clock that is put on); what is left then is left for good. */
const MAX_BACKOFFS = 3;
const SAMPLE_MS = 20;
const LOCK_WAITS = `SELECT count(*)::int AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
const DEADLOCKS = 'SELECT deadlocks::int AS n FROM pg_stat_database WHERE datname = current_database()';

interface Measured extends RaceCounts {
  readonly rows: number;
  readonly seconds: number;
  readonly virtualSeconds: number;
  readonly left: number;
  readonly lockWaitSeconds: number;
  readonly deadlocks: number;
}

/** `npm run bench -- race` */
export const race: Benchmark = async (bench) => {
  const rows = bench.pick(60, 500, 5_000);
  const pods = bench.pick([2], [2, 4, 8], [2, 4, 8]);
  const repetitions = bench.pick(1, 3, 1);
  const ways = pods.flatMap((count) => Object.keys(STRATEGIES).map((name) => ({ count, name })));
  const all = await sideBySide(ways, repetitions, async ({ count, name }) => {
    const measured = await measure(bench, name, count, rows);
    bench.progress(`${count} pods, ${name}: ${figure(measured.seconds)} s`);
    return measured;
  });
  return {
    tables: [
      {
        title: 'Pods in the same poll window',
        columns: [
          'pods',
          '',
          's',
          's with back-offs',
          'sent twice %',
          'collided %',
          'delayed ≥ 5 min %',
          'never done %',
          'rows read/event',
          'lock-wait s',
          'deadlocks',
        ],
        rows: [...all].map(([{ count, name }, measured]) => [String(count), name, ...cells(measured)]),
        note: `${figure(rows)} rows, a window of ${WINDOW_MS} ms, up to 100 rows read a window, 1 ms to send one; five-minute back-offs are waited for on a clock that is put on, ${MAX_BACKOFFS} times at most. Collided: worked on a row that another pod had.`,
      },
    ],
    data: { rows, ways: [...all].map(([way, measured]) => ({ ...way, measured })) },
  };
};

function cells(all: readonly Measured[]): string[] {
  const of = (value: (one: Measured) => number) => figure(median(all.map(value)));
  const percent = (value: (one: Measured) => number) => of((one) => (100 * value(one)) / one.rows);
  return [
    of(({ seconds }) => seconds),
    of(({ virtualSeconds }) => virtualSeconds),
    percent(({ sent, rows }) => Math.max(0, sent - rows)),
    percent(({ collided }) => collided),
    percent(({ delayed }) => delayed),
    percent(({ left }) => left),
    of(({ read, rows }) => read / rows),
    of(({ lockWaitSeconds }) => lockWaitSeconds),
    of(({ deadlocks }) => deadlocks),
  ];
}

async function measure(bench: Bench, name: string, podCount: number, rows: number): Promise<Measured> {
  const strategy = STRATEGIES[name];
  if (!strategy) throw new Error(`no strategy ${name}`);
  const database = await bench.postgres.create();
  const open = (max: number) => new Pool({ connectionString: database.url, max });
  const onlooker = open(2);
  const ask = async (text: string) => Number((await onlooker.query<{ n: number }>(text)).rows[0]?.n);
  await strategy.prepare(onlooker, rows);
  await database.settle();
  const pods = Array.from({ length: podCount }, () => open(3));
  // Connected, before it counts.
  await Promise.all(pods.map((pod) => pod.query('SELECT 1')));
  const counts: RaceCounts = { read: 0, sent: 0, collided: 0, delayed: 0 };
  const sampler = sampleLocks(() => ask(LOCK_WAITS));
  const began = performance.now();
  let backoffs = 0;
  const podLoop = async (pod: Pool) => {
    for (;;) {
      await sleep(WINDOW_MS - ((performance.now() - began) % WINDOW_MS));
      if (!(await strategy.turn(pod, counts))) return;
    }
  };
  for (;;) {
    await Promise.all(pods.map(podLoop));
    if ((await ask(strategy.left)) === 0 || !strategy.forward || backoffs === MAX_BACKOFFS) break;
    await onlooker.query(strategy.forward);
    backoffs += 1;
  }
  const seconds = (performance.now() - began) / 1000;
  const lockWaitSeconds = await sampler.stop();
  const left = await ask(strategy.left);
  // Sessions report what they did when they end.
  await Promise.all(pods.map((pod) => pod.end()));
  const deadlocks = await ask(DEADLOCKS);
  await onlooker.end();
  await database.drop();
  return {
    ...counts,
    rows,
    seconds,
    virtualSeconds: seconds + backoffs * BACKOFF_SECONDS,
    left,
    lockWaitSeconds,
    deadlocks,
  };
}

/** Adds up how long sessions waited for locks, looked at every 20 ms. */
function sampleLocks(waiting: () => Promise<number>) {
  let sum = 0;
  const end = new AbortController();
  const loop = (async () => {
    for (let last = performance.now(); !end.signal.aborted;) {
      await sleep(SAMPLE_MS);
      const sessions = await waiting();
      const now = performance.now();
      sum += (sessions * (now - last)) / 1000;
      last = now;
    }
  })();
  return {
    stop: async () => {
      end.abort();
      await loop;
      return sum;
    },
  };
}
