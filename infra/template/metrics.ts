// The metrics that alarms and dashboard may name: the relay's own, and the few of AWS.

import { METRICS as OWN } from '../../functions/shared/metrics.ts';
import { NAMESPACE } from '../../functions/shared/report.ts';

export { NAMESPACE };

/** Metric → each set of dimensions it comes with, by namespace. */
export const METRICS: Readonly<Record<string, Readonly<Record<string, readonly string[][]>>>> = {
  [NAMESPACE]: Object.fromEntries(
    [...Map.groupBy(OWN, ({ name }) => name)].map(([name, metrics]) => [
      name,
      metrics.map(({ by }) => ['service', ...(by === undefined ? [] : [by])]),
    ]),
  ),
  'AWS/SQS': withDimension(
    'QueueName',
    'ApproximateNumberOfMessagesVisible',
    'ApproximateAgeOfOldestMessage',
  ),
  'AWS/Lambda': withDimension('FunctionName', 'Errors', 'Throttles', 'Duration', 'ConcurrentExecutions'),
};

/** Those that are sent while nothing happens; the others only above zero (docs/metrics.md). */
export const SENT_WHEN_IDLE = OWN.filter(({ sent }) => sent === 'always').map(({ name }) => name);

/**
 * Says what is wrong with a reference to a metric, as an alarm or a dashboard makes it; undefined when it exists with
 * exactly these dimensions. (CloudWatch accepts any name and finds no data.)
 */
export function metricError(namespace: string, name: string, dimensions: string[]): string | undefined {
  const expected = METRICS[namespace]?.[name];
  if (!expected) return `unknown metric ${namespace} ${name}`;
  const given = dimensions.toSorted().join();
  if (expected.some((each) => each.toSorted().join() === given)) return undefined;
  const sets = expected.map((each) => each.join(', ')).join(', or ');
  return `${name} has dimensions ${sets}, not ${dimensions.join(', ') || 'none'}`;
}

function withDimension(dimension: string, ...names: string[]): Record<string, string[][]> {
  return Object.fromEntries(names.map((name) => [name, [[dimension]]]));
}
