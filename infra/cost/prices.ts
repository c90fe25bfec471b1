// What AWS asks, and what we suppose: every number of the cost model that the template does not say.

/** One price, in US dollars for so many units. */
export interface Price {
  dollars: number;
  per: number;
  unit: string;
  /** Units a month that an account has free for good. */
  free: number;
  source: string;
}

const page = (path: string): string => `https://aws.amazon.com/${path}/pricing/`;

/** Region and day of the prices; a bill depends on both. */
export const PRICED = { region: 'eu-central-1', month: '2026-11' };

/** List prices, typed in by hand; `source` is where to check them. No test can know that they still hold. */
export const PRICES = {
  schedule: { dollars: 1.2, per: 1e6, unit: 'schedule invocations', free: 14e6, source: page('eventbridge') },
  rule: { dollars: 1, per: 1e6, unit: 'scheduled rule events', free: 0, source: page('eventbridge') },
  standardQueue: { dollars: 0.4, per: 1e6, unit: 'requests, standard', free: 1e6, source: page('sqs') },
  fifoQueue: { dollars: 0.5, per: 1e6, unit: 'requests, FIFO', free: 0, source: page('sqs') },
  invocation: { dollars: 0.2, per: 1e6, unit: 'invocations', free: 1e6, source: page('lambda') },
  compute: { dollars: 13.3334, per: 1e6, unit: 'GB-seconds, arm64', free: 400_000, source: page('lambda') },
  log: { dollars: 0.63, per: 1, unit: 'GB of log taken in', free: 5, source: page('cloudwatch') },
  metric: { dollars: 0.3, per: 1, unit: 'metrics of our own', free: 10, source: page('cloudwatch') },
  alarm: { dollars: 0.1, per: 1, unit: 'metrics in alarms', free: 10, source: page('cloudwatch') },
  dashboard: { dollars: 3, per: 1, unit: 'dashboards', free: 3, source: page('cloudwatch') },
  secret: { dollars: 0.4, per: 1, unit: 'secrets', free: 0, source: page('secrets-manager') },
  endpoint: {
    dollars: 0.012,
    per: 1,
    unit: 'hours of an endpoint in a zone',
    free: 0,
    source: page('privatelink'),
  },
  aurora: { dollars: 0.14, per: 1, unit: 'ACU-hours', free: 0, source: page('rds/aurora') },
  proxy: { dollars: 0.018, per: 1, unit: 'ACU-hours behind a proxy', free: 0, source: page('rds/proxy') },
} as const satisfies Record<string, Price>;

/** What is billed, by the name of its price. */
export type Item = keyof typeof PRICES;

/** One supposition, with where it comes from. */
export interface Assumption {
  value: number;
  unit: string;
  why: string;
}

/** Everything that neither the template nor a price says. Change one, run the command again. */
export const ASSUMPTIONS = {
  hoursPerMonth: { value: 730, unit: 'h', why: '8,760 / 12' },
  pollsPerMinute: {
    value: 15,
    unit: 'requests',
    why: 'Lambda polls an empty queue with five pollers of 20 s each, whether or not anything comes',
  },
  idleTickMilliseconds: { value: 20, unit: 'ms', why: 'one claim of an empty outbox, on a warm sandbox' },
  idleRunMilliseconds: { value: 100, unit: 'ms', why: 'one run of gauge or prune with nothing to do' },
  logBytesPerIdleTick: {
    value: 700,
    unit: 'bytes',
    why: "Lambda's own lines (400) and one of ours (300); an idle tick sends no metric",
  },
  logBytesPerRun: {
    value: 1_500,
    unit: 'bytes',
    why: "Lambda's own lines (400), one of ours (300), one with metrics (800)",
  },
  eventBytes: {
    value: 1_000,
    unit: 'bytes',
    why: 'the envelope and a small payload; SQS bills 64 KB as one request',
  },
  relayEventsPerSecond: {
    value: 500,
    unit: 'events',
    why: 'one relay under load, network to the database included',
  },
  batchFill: { value: 10, unit: 'events', why: 'messages per batch under load; at a trickle it is 1' },
  applyMilliseconds: {
    value: 10,
    unit: 'ms',
    why: 'one effect in its own transaction, four at once in a batch',
  },
  effectsAtOnce: { value: 4, unit: 'effects', why: 'OUTBOX_CONCURRENCY' },
  nudgesPerEvent: { value: 1, unit: 'requests', why: 'a nudge after each commit; 0 without' },
  endpointZones: { value: 2, unit: 'zones', why: 'subnets given' },
  auroraLeastAcu: {
    value: 0.5,
    unit: 'ACU',
    why: 'what it runs at while anything connects every five minutes',
  },
  proxyLeastAcu: { value: 8, unit: 'ACU', why: 'the least that a proxy is billed for' },
} as const satisfies Record<string, Assumption>;
