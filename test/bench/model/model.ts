// `npm run bench -- model`: what the measured costs make of 10 to 100,000 events a second.

import { figure, quantile } from '../harness/stats.ts';
import type { Result } from '../harness/table.ts';
import { backlog, simulate, steady, type RelayModel } from './relay.ts';

/** CPU costs in milliseconds, measured on a quiet machine (docs/performance.md says how). */
const COSTS = {
  // 1.15 ms a call of ten; about half of it is there for a single message too.
  callMs: 0.6,
  callEventMs: 0.055,
  claimMs: 0.3,
  claimEventMs: 0.012,
  statementEventMs: 0.012,
};
/** CPU of PostgreSQL for an event's whole way: recorded, claimed and acknowledged, applied (per-batch transactions). */
const POSTGRES_MICROS = { record: 25, relay: 35, apply: 155 };
/** CPU of the consumer's sandbox for an event, one transaction a batch. */
const CONSUMER_MICROS = 330;

/** As between Lambda, a managed database and SQS in one region. */
const REGION = { databaseMs: 1.5, commitMs: 2, queueMs: 10, wakeMs: 30 };
const TEMPLATE = { callsInFlight: 16, claimLimit: 100, claimsUnderway: 2 };
/** Lambda gives a whole core at 1,769 MB. */
const coresOf = (memoryMb: number) => memoryMb / 1_769;

/** Prices in US dollars, as parameters: look yours up. */
const PRICES = { sqsMillion: 0.4, invocationMillion: 0.2, gbSecond: 0.0000133334, databaseCoreHour: 0.12 };
const MONTH_SECONDS = 30 * 86_400;
/** Of a database's cores, what the outbox may take on a writer that has other work. */
const DATABASE_SHARE = 0.7;

/**
 * Measured on a quiet machine with the relay's design over pg: events/s of a drained backlog, at 10 ms a call.
 * `aws`: also 1 ms a round trip and 2 ms a commit.
 */
const MEASURED = [
  { aws: false, claimLimit: 100, claimsUnderway: 1, callsInFlight: 1, eventsPerSecond: 772 },
  { aws: false, claimLimit: 100, claimsUnderway: 1, callsInFlight: 4, eventsPerSecond: 2_311 },
  { aws: false, claimLimit: 100, claimsUnderway: 1, callsInFlight: 16, eventsPerSecond: 4_547 },
  { aws: false, claimLimit: 100, claimsUnderway: 2, callsInFlight: 16, eventsPerSecond: 6_955 },
  { aws: false, claimLimit: 500, claimsUnderway: 1, callsInFlight: 8, eventsPerSecond: 4_757 },
  { aws: false, claimLimit: 500, claimsUnderway: 2, callsInFlight: 16, eventsPerSecond: 8_095 },
  { aws: true, claimLimit: 100, claimsUnderway: 1, callsInFlight: 1, eventsPerSecond: 754 },
  { aws: true, claimLimit: 100, claimsUnderway: 1, callsInFlight: 8, eventsPerSecond: 2_547 },
  { aws: true, claimLimit: 100, claimsUnderway: 1, callsInFlight: 16, eventsPerSecond: 3_415 },
  { aws: true, claimLimit: 100, claimsUnderway: 2, callsInFlight: 8, eventsPerSecond: 4_728 },
];

const RATES = [10, 100, 1_000, 5_000, 10_000, 20_000, 50_000, 100_000];
const MEMORY_MB = [512, 1_769];
/** A relay is given this share of what it could do, so that its queue stays short. */
const TARGET = 0.7;

const relayOf = (memoryMb: number): RelayModel => ({
  ...COSTS,
  ...REGION,
  ...TEMPLATE,
  cores: coresOf(memoryMb),
});
const capacityOf = (model: RelayModel) => simulate(model, backlog(20_000)).eventsPerSecond;

/** Runs the model. */
export function model(): Result {
  const checks = MEASURED.map(({ aws, eventsPerSecond, ...settings }) => {
    const far = aws ? { databaseMs: 1.5, commitMs: 2 } : { databaseMs: 0.2, commitMs: 0.3 };
    // A call that is asked to take 10 ms takes 11.8 with nobody waiting: timer and emulator.
    const predicted = simulate(
      { ...COSTS, ...settings, ...far, cores: 1, queueMs: 11.3, wakeMs: 0 },
      backlog(20_000),
    ).eventsPerSecond;
    return { aws, ...settings, measured: eventsPerSecond, predicted };
  });
  const predictions = MEMORY_MB.flatMap((memoryMb) => predict(memoryMb));
  return { tables: [checkTable(checks), predictionTable(predictions)], data: { checks, predictions } };
}

type Check = Omit<(typeof MEASURED)[number], 'eventsPerSecond'> & { measured: number; predicted: number };

const checkTable = (checks: readonly Check[]) => ({
  title: 'The model against what was measured',
  columns: [
    'distance',
    'claim limit',
    'claims underway',
    'calls in flight',
    'measured events/s',
    'predicted',
    'predicted / measured',
  ],
  rows: checks.map(({ aws, claimLimit, claimsUnderway, callsInFlight, measured, predicted }) => [
    aws ? '10 ms SQS, 1 ms + 2 ms database' : '10 ms SQS',
    ...[claimLimit, claimsUnderway, callsInFlight, measured, predicted, predicted / measured].map(figure),
  ]),
});

function predict(memoryMb: number) {
  const one = relayOf(memoryMb);
  const capacity = capacityOf(one);
  return RATES.map((rate) => {
    const relays = Math.max(1, Math.ceil(rate / (capacity * TARGET)));
    const share = rate / relays;
    const simulated = simulate(one, steady(share, Math.min(20_000, Math.max(500, share * 10))));
    const callsPerEvent = Math.min(1, Math.max(0.1, 1 / (1 + share * (REGION.wakeMs / 1000))));
    const databaseMicros = POSTGRES_MICROS.record + POSTGRES_MICROS.relay + POSTGRES_MICROS.apply;
    return {
      memoryMb,
      rate,
      capacity,
      relays,
      p50: quantile(simulated.waits, 0.5),
      p99: quantile(simulated.waits, 0.99),
      databaseCores: (rate * databaseMicros) / 1e6,
      shards: Math.max(1, Math.ceil((rate * databaseMicros) / 1e6 / (DATABASE_SHARE * LARGEST_CORES))),
      dollars: dollarsOf(rate, relays, simulated.busy, callsPerEvent, memoryMb),
    };
  });
}

/** Cores of a large database server. */
const LARGEST_CORES = 32;

/** US dollars a month: SQS, Lambda and the database's share. */
function dollarsOf(
  rate: number,
  relays: number,
  busy: number,
  callsPerEvent: number,
  memoryMb: number,
): number {
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
  const databaseMicros = POSTGRES_MICROS.record + POSTGRES_MICROS.relay + POSTGRES_MICROS.apply;
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
