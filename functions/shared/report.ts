import { Logger, LogFormatter, LogItem } from '@aws-lambda-powertools/logger';
import type { LogAttributes, UnformattedAttributes } from '@aws-lambda-powertools/logger/types';
import { Metrics } from '@aws-lambda-powertools/metrics';
import type { Context } from 'aws-lambda';
import { describeError } from './errors.ts';
import { measure, METRICS } from './metrics.ts';

type Level = 'info' | 'warn' | 'error';
type Fields = Readonly<Record<string, unknown>>;

/** Every line there is, with its level. `npm test` holds docs/operations.md against it. */
export const LINES = {
  'relay.tick': 'info',
  'relay.cut_short': 'warn',
  'consumer.batch': 'info',
  'consumer.record': ({ outcome }) => (outcome === 'terminal' ? 'error' : 'warn'),
  'consumer.fell_back': 'warn',
  'consumer.delay_lost': 'warn',
  'consumer.dead_letter_failed': 'error',
  'nudge.lost': 'warn',
  'gauge.measured': 'info',
  'prune.done': 'info',
  migrate: 'info',
} as const satisfies Record<string, Level | ((fields: Fields) => Level)>;

/** What happened; goes out as one JSON line and the metrics in it. */
export type Report = (event: keyof typeof LINES, fields: Fields) => void;

/** What lines and metrics are called `service` when `POWERTOOLS_SERVICE_NAME` is not set. */
const SERVICE = 'outbox-relay';
/** The namespace of metrics when `POWERTOOLS_METRICS_NAMESPACE` is not set. */
export const NAMESPACE = 'OutboxRelay';

/** Powertools' usual line without what is the same in all lines of a function: it would more than double an idle tick's. */
class ShortLine extends LogFormatter {
  override formatAttributes(
    { logLevel, timestamp, message, serviceName, lambdaContext, xRayTraceId }: UnformattedAttributes,
    fields: LogAttributes,
  ): LogItem {
    const attributes = {
      level: logLevel,
      event: message,
      ...fields,
      timestamp: this.formatTimestamp(timestamp),
      service: serviceName,
      cold_start: lambdaContext?.coldStart,
      function_request_id: lambdaContext?.awsRequestId,
      xray_trace_id: xRayTraceId,
    };
    return new LogItem({ attributes });
  }
}

interface Sinks {
  readonly logger: Logger;
  /** By dimensions: Powertools keeps default dimensions only, when a hundred values make it write before the end. */
  readonly metrics: Map<string, Metrics>;
}

let made: Sinks | undefined;

/** Made with the first line, so that a module that only might report reads no environment. */
const sinks = (): Sinks =>
  (made ??= {
    logger: new Logger({ serviceName: serviceName(), logFormatter: new ShortLine() }),
    metrics: new Map(),
  });

const serviceName = () => process.env['POWERTOOLS_SERVICE_NAME']?.trim() || SERVICE;

/** The lines from here on belong to this invocation, and say so: its request id, and whether it started cold. */
export function nameInvocation(context: Context): void {
  quietly('context', () => sinks().logger.addContext(context));
}

/**
 * Writes what happened to standard output: a line that CloudWatch Logs reads as structured, and in CloudWatch's embedded
 * format the metrics in it. A bigint is written in decimal. Never payloads, never secrets. Never throws.
 */
export const report: Report = (event, fields) => quietly(event, () => write(event, fields));

/** A line that cannot be written (a POWERTOOLS_ setting that Powertools refuses) must not undo what it tells of. */
function quietly(event: string, act: () => void): void {
  try {
    act();
  } catch (error) {
    console.error(
      JSON.stringify({ level: 'ERROR', event, message: `not reported: ${describeError(error)}` }),
    );
  }
}

function write(event: keyof typeof LINES, fields: Fields): void {
  const level: Level | ((fields: Fields) => Level) = LINES[event];
  const measurements = measure(event, fields);
  sinks().logger[typeof level === 'function' ? level(fields) : level](event, withoutLists(event, fields));

  const touched = new Set<Metrics>();
  for (const { metric, dimensions, value } of measurements) {
    const sink = metricsOf(dimensions);
    sink.addMetric(metric.name, metric.unit, value);
    touched.add(sink);
  }
  for (const sink of touched) if (sink.hasStoredMetrics()) sink.publishStoredMetrics();
}

/** A list of values is for its metric alone. */
function withoutLists(event: string, fields: Fields): Record<string, unknown> {
  const lists = METRICS.filter((metric) => metric.event === event && Array.isArray(fields[metric.field]));
  const hidden = new Set(lists.map(({ field }) => field));
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !hidden.has(name)));
}

function metricsOf(dimensions: Readonly<Record<string, string>>): Metrics {
  const { metrics } = sinks();
  const key = JSON.stringify(dimensions);
  const known = metrics.get(key);
  if (known) return known;
  const namespace = process.env['POWERTOOLS_METRICS_NAMESPACE']?.trim() || NAMESPACE;
  const sink = new Metrics({ namespace, serviceName: serviceName(), defaultDimensions: { ...dimensions } });
  metrics.set(key, sink);
  return sink;
}
