// How fast a backlog drains to SQS: our relay, what limits it, and the peers.

import { sideBySide, type Benchmark } from './harness/bench.ts';
import { drainOnce, spreads, type DrainMeasure, type Entrant } from './harness/drain.ts';
import { AWS } from './harness/outside.ts';
import { hasPeers } from './harness/peers.ts';
import { figure, spreadText } from './harness/stats.ts';
import type { Table } from './harness/table.ts';

const ours = (environment: Record<string, string>) =>
  ({ contender: 'relay', options: { environment } }) as const;
const CLAIM_500 = { OUTBOX_CLAIM_LIMIT: '500' };
const CAP_MS = 4_000;

/** Everything on this machine. */
const NEAR: Readonly<Record<string, Entrant>> = {
  'SDK alone, its defaults': { contender: 'sdk', options: { client: 'defaults' } },
  "SDK alone, the relay's client": { contender: 'sdk' },
  'claim + acknowledge alone, pg': { contender: 'store', options: { through: 'pg' } },
  'claim + acknowledge alone, Prisma': { contender: 'store', options: { through: 'prisma' } },
  'ours, as deployed (claims of 100)': ours({}),
  'ours, claims of 500': ours(CLAIM_500),
};

const GRAPHILE_TUNED = {
  concurrentJobs: 100,
  maxPoolSize: 20,
  localQueue: { size: 500, refetchDelay: { durationMs: 10 } },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
};
const BOSS_TUNED = {
  batchSize: 500,
  localConcurrency: 2,
  burstWhenBatchFull: true,
  pollingIntervalSeconds: 0.5,
};
const BOSS: Entrant = { contender: 'pgBoss', options: BOSS_TUNED };
const GRAPHILE: Entrant = { contender: 'graphile', options: GRAPHILE_TUNED };
/** Too slow for a whole backlog: judged by what they do in four seconds, once. */
const SLOW = { capMs: CAP_MS, repetitions: 1, events: 6_000 } as const;

const PEERS: Readonly<Record<string, Entrant>> = {
  'pg-boss, tuned': BOSS,
  'graphile-worker, tuned': GRAPHILE,
  'pg-transactional-outbox, tuned': {
    contender: 'outboxLibrary',
    options: { listener: 'replication' },
    ...SLOW,
  },
  'pg-boss, defaults': { contender: 'pgBoss', ...SLOW },
  'graphile-worker, defaults': { contender: 'graphile', ...SLOW },
  'pg-transactional-outbox, defaults': { contender: 'outboxLibrary', ...SLOW },
};

/** As far apart as in a region of AWS. */
const FAR: Readonly<Record<string, Entrant>> = {
  "SDK alone, the relay's client": { contender: 'sdk', distance: AWS },
  'ours, as deployed (claims of 100)': { ...ours({}), distance: AWS },
  'ours, claims of 500': { ...ours(CLAIM_500), distance: AWS },
};
const FAR_PEERS: Readonly<Record<string, Entrant>> = {
  'pg-boss, tuned': { ...BOSS, distance: AWS },
  'graphile-worker, tuned': { ...GRAPHILE, distance: AWS },
};

/** One of each kind, to see that it runs. */
const TINY: Readonly<Record<string, Entrant>> = {
  "SDK alone, the relay's client": { contender: 'sdk' },
  'claim + acknowledge alone, pg': { contender: 'store', options: { through: 'pg' } },
  'ours, as deployed (claims of 100)': ours({}),
};
const FAR_TINY: Readonly<Record<string, Entrant>> = {
  "SDK alone, the relay's client": { contender: 'sdk', distance: AWS },
  'ours, as deployed (claims of 100)': { ...ours({}), distance: AWS },
};

/** `npm run bench -- relay` */
export const relay: Benchmark = async (bench) => {
  const events = bench.pick(200, 6_000, 50_000);
  const warmUp = bench.pick(0, 4_000, 10_000);
  const repetitions = bench.pick(1, 3, 3);
  const measure = async (entrants: Readonly<Record<string, Entrant>>) =>
    sideBySide(Object.keys(entrants), repetitions, async (name, repetition) => {
      const entrant = entrants[name];
      if (!entrant || repetition >= (entrant.repetitions ?? repetitions)) return undefined;
      const measured = await drainOnce(bench, entrant, events, entrant.repetitions === 1 ? 0 : warmUp);
      bench.progress(`${name}: ${figure(measured.eventsPerSecond)} events/s`);
      return measured;
    });
  const withPeers = bench.size !== 'tiny' && hasPeers();
  const near = await measure({ ...bench.pick(TINY, NEAR, NEAR), ...(withPeers && PEERS) });
  const far = await measure({ ...bench.pick(FAR_TINY, FAR, FAR), ...(withPeers && FAR_PEERS) });
  const data = { near: dataOf(near), far: dataOf(far), events, repetitions };
  return { tables: tablesOf(data), data };
};

type Measures = ReadonlyMap<string, readonly (DrainMeasure | undefined)[]>;
type Spreads = Readonly<Record<string, ReturnType<typeof spreads>>>;

const dataOf = (measures: Measures): Spreads =>
  Object.fromEntries(
    [...measures].map(([name, all]) => [name, spreads(all.filter((one) => one !== undefined))]),
  );

/** What was measured, as tables. */
export function tablesOf(data: {
  readonly near: Spreads;
  readonly far: Spreads;
  readonly events: number;
  readonly repetitions: number;
}): Table[] {
  const note = `${figure(data.events)} events of 300 B; 16 calls in flight; ${data.repetitions} repetitions, interleaved. CPU is in µs an event; a relay on a core of its own drains 1,000,000 / its Node µs.`;
  return [
    table('Draining a backlog, everything on one machine', data.near, note),
    table(
      'The same with 10 ms per SQS call, 1–2 ms per database round trip, 2 ms per commit',
      data.far,
      `${note} 16 calls in flight at 10 ms each allow 16,000 events/s; the SDK alone shows what the machine makes of that.`,
    ),
  ];
}

function table(title: string, measures: Spreads, note: string): Table {
  const limit = measures["SDK alone, the relay's client"];
  return {
    title,
    columns: [
      '',
      'events/s',
      'of the SDK alone',
      'CPU: Node',
      'PostgreSQL',
      'emulator',
      'events a second of Node',
      'of the SDK alone',
    ],
    rows: Object.entries(measures).map(
      ([name, { eventsPerSecond, nodeMicros, postgresMicros, outsideMicros }]) => [
        name,
        spreadText(eventsPerSecond),
        figure(eventsPerSecond.median / (limit?.eventsPerSecond.median ?? NaN)),
        spreadText(nodeMicros),
        figure(postgresMicros.median),
        figure(outsideMicros.median),
        figure(1e6 / nodeMicros.median),
        figure((limit?.nodeMicros.median ?? NaN) / nodeMicros.median),
      ],
    ),
    note,
  };
}
