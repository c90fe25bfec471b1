// `npm run bench -- model`: what the costs measured here make of 10 to 100,000 events a second.

import type { Benchmark } from '../harness/bench.ts';
import type { Entrant } from '../harness/drain.ts';
import { AWS } from '../harness/outside.ts';
import { figure, quantile } from '../harness/stats.ts';
import { drainAgain, measureCosts, type Costs } from './costs.ts';
import { backlog, simulate, steady, type RelayModel } from './relay.ts';

type Settings = Pick<RelayModel, 'claimLimit' | 'claimsUnderway' | 'callsInFlight'>;

/** What the model is held against, as far apart as in a region. */
const SETTINGS: Settings[] = [
  { claimLimit: 100, claimsUnderway: 1, callsInFlight: 1 },
  { claimLimit: 100, claimsUnderway: 1, callsInFlight: 4 },
  { claimLimit: 100, claimsUnderway: 1, callsInFlight: 16 },
  { claimLimit: 100, claimsUnderway: 2, callsInFlight: 8 },
  { claimLimit: 100, claimsUnderway: 2, callsInFlight: 16 },
  { claimLimit: 100, claimsUnderway: 4, callsInFlight: 16 },
  { claimLimit: 500, claimsUnderway: 1, callsInFlight: 16 },
  { claimLimit: 500, claimsUnderway: 2, callsInFlight: 16 },
];

/** CPU of PostgreSQL for recording and for applying an event (one transaction a batch): docs/performance.md. */
const POSTGRES_MICROS = { record: 500, apply: 400 };
/** CPU of the consumer's sandbox for an event, one transaction a batch: docs/performance.md. */
const CONSUMER_MICROS = 700;

/** As between Lambda, a managed database and SQS in one region. */
const REGION = { databaseMs: 1.5, commitMs: 2, queueMs: 10, wakeMs: 30 };
/** The same as the benchmarks put it between themselves: timers and the emulator add a little to a call of 10 ms. */
const PUT_BETWEEN = { ...REGION, queueMs: 11.3, wakeMs: 0 };
const TEMPLATE = { callsInFlight: 16, claimLimit: 100, claimsUnderway: 4 };
/** Lambda gives a whole core at 1,769 MB. */
const coresOf = (memoryMb: number) => memoryMb / 1_769;

/** Prices in US dollars, as parameters: look yours up. */
const PRICES = { sqsMillion: 0.4, invocationMillion: 0.2, gbSecond: 0.0000133334, databaseCoreHour: 0.12 };
const MONTH_SECONDS = 30 * 86_400;
/** Of a database's cores, what the outbox may take on a writer that has other work. */
const DATABASE_SHARE = 0.7;

const RATES = [10, 100, 1_000, 5_000, 10_000, 20_000, 50_000, 100_000];
const MEMORY_MB = [512, 1_769];
/** A relay is given this share of what it could do, so that its queue stays short. */
const TARGET = 0.7;

/** `npm run bench -- model` */
export const model: Benchmark = async (bench) => {
  const { relayMicros, ...costs } = await measureCosts(bench);
  const checks: Check[] = [];
  for (const settings of bench.pick(SETTINGS.slice(0, 1), SETTINGS, SETTINGS)) {
    const { eventsPerSecond } = await drainAgain(bench, { ...ours(settings), distance: AWS });
    const measured = eventsPerSecond.median;
    const one = { ...costs, ...settings, ...PUT_BETWEEN, cores: 1 };
    const predicted = simulate(one, backlog(20_000)).eventsPerSecond;
    bench.progress(`${JSON.stringify(settings)}: ${figure(predicted / measured)} of what was measured`);
    checks.push({ ...settings, measured, predicted });
  }
  const databaseMicros = POSTGRES_MICROS.record + relayMicros + POSTGRES_MICROS.apply;
  const predictions = MEMORY_MB.flatMap((memoryMb) => predict(costs, databaseMicros, memoryMb));
  return {
    tables: [costTable(costs, databaseMicros), checkTable(checks), predictionTable(predictions)],
    data: { costs, checks, predictions },
  };
};

const ours = ({ claimLimit, claimsUnderway, callsInFlight }: Settings): Entrant => ({
  contender: 'relay',
  options: {
    environment: {
      OUTBOX_CLAIM_LIMIT: String(claimLimit),
      OUTBOX_CLAIMS_UNDERWAY: String(claimsUnderway),
      OUTBOX_CALLS_IN_FLIGHT: String(callsInFlight),
    },
  },
});

const relayOf = (costs: Costs, memoryMb: number): RelayModel => ({
  ...costs,
  ...REGION,
  ...TEMPLATE,
  cores: coresOf(memoryMb),
});

type Check = Settings & { measured: number; predicted: number };

const costTable = (costs: Costs, databaseMicros: number) => ({
  title: 'What goes into the model',
  columns: ['milliseconds of CPU', 'whatever is in it', 'for each event'],
  rows: [
    ['a call to the queue', figure(costs.callMs), figure(costs.callEventMs)],
    ['a claim and its acknowledge', figure(costs.claimMs), figure(costs.claimEventMs)],
    ['PostgreSQL, from recording to applying', '–', figure(databaseMicros / 1000)],
  ],
});

const checkTable = (checks: readonly Check[]) => ({
  title: 'The model against the relay',
  columns: [
    'claim limit',
    'claims underway',
    'calls in flight',
    'measured events/s',
    'predicted',
    'predicted / measured',
  ],
  rows: checks.map(({ claimLimit, claimsUnderway, callsInFlight, measured, predicted }) =>
    [claimLimit, claimsUnderway, callsInFlight, measured, predicted, predicted / measured].map(figure),
  ),
  note: 'A backlog, with 10 ms per SQS call, 1–2 ms per database round trip and 2 ms per commit.',
});

function predict(costs: Costs, databaseMicros: number, memoryMb: number) {
  const one = relayOf(costs, memoryMb);
  const capacity = simulate(one, backlog(20_000)).eventsPerSecond;
  return RATES.map((rate) => {
    const relays = Math.max(1, Math.ceil(rate / (capacity * TARGET)));
    const share = rate / relays;
    const simulated = simulate(one, steady(share, Math.min(20_000, Math.max(500, share * 10))));
    const callsPerEvent = Math.min(1, Math.max(0.1, 1 / (1 + share * (REGION.wakeMs / 1000))));
    return {
      memoryMb,
      rate,
      capacity,
      relays,
      p50: quantile(simulated.waits, 0.5),
      p99: quantile(simulated.waits, 0.99),
      databaseCores: (rate * databaseMicros) / 1e6,
      shards: Math.max(1, Math.ceil((rate * databaseMicros) / 1e6 / (DATABASE_SHARE * LARGEST_CORES))),
      dollars: dollarsOf({ rate, relays, busy: simulated.busy, callsPerEvent, memoryMb, databaseMicros }),
    };
  });
}

/** Cores of a large database server. */
const LARGEST_CORES = 32;

/** US dollars a month: SQS, Lambda and the database's share. */
function dollarsOf(of: {
  readonly rate: number;
  readonly relays: number;
  readonly busy: number;
  readonly callsPerEvent: number;
  readonly memoryMb: number;
  readonly databaseMicros: number;
}): number {
  const { rate, relays, busy, callsPerEvent, memoryMb, databaseMicros } = of;
  const events = rate * MONTH_SECONDS;
  // Sent, received and deleted; and the ticks that wake relays.
  const requests = 3 * callsPerEvent * events + (MONTH_SECONDS / 10) * 4;
  const relaySeconds = relays * Math.min(1, busy * 1.5 + 0.01) * MONTH_SECONDS;
  const consumerSeconds = (events * CONSUMER_MICROS) / 1e6 / coresOf(memoryMb);
  const gb = memoryMb / 1_024;
  const sqs = (requests / 1e6) * PRICES.sqsMillion;
  const lambda =
    (relaySeconds + consumerSeconds) * gb * PRICES.gbSecond +
    ((callsPerEvent * events) / 1e6) * PRICES.invocationMillion;
  const database = ((events * databaseMicros) / 1e6 / 3_600) * PRICES.databaseCoreHour;
  return sqs + lambda + database;
}

const predictionTable = (predictions: ReturnType<typeof predict>) => ({
  title: 'Predicted, in one region, with the settings of the template',
  columns: [
    'relay memory MB',
    'events/s',
    'one relay can',
    'relays',
    'published p50 ms',
    'p99 ms',
    'database cores',
    'databases',
    'US$/month',
  ],
  rows: predictions.map(({ memoryMb, rate, capacity, relays, p50, p99, databaseCores, shards, dollars }) =>
    [memoryMb, rate, capacity, relays, p50, p99, databaseCores, shards, dollars].map(figure),
  ),
});
