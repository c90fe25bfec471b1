// The metrics that alarms and dashboard may name: ours, as docs/metrics.md describes them, and the few of AWS.

/** Namespace of the relay's own metrics. */
export const NAMESPACE = 'OutboxRelay';

/** Metric → its dimensions, by namespace. */
export const METRICS: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  [NAMESPACE]: {
    ...withDimensions(
      ['service'],
      ['Backlog', 'BacklogAge', 'ParkedEvents'],
      [
        'Claimed',
        'Published',
        'Acknowledged',
        'FencedOut',
        'Released',
        'Parked',
        'Unanswered',
        'TickDuration',
        'OldestClaimed',
      ],
    ),
    ...withDimensions(['service', 'consumer'], ['Applied', 'Duplicates', 'Terminal', 'Retried', 'ApplyLag']),
  },
  'AWS/SQS': withDimensions(
    ['QueueName'],
    ['ApproximateNumberOfMessagesVisible', 'ApproximateAgeOfOldestMessage'],
  ),
  'AWS/Lambda': withDimensions(['FunctionName'], ['Errors', 'Throttles', 'Duration', 'ConcurrentExecutions']),
};

/** Those that are sent while nothing happens; the others only above zero (docs/metrics.md). */
export const SENT_WHEN_IDLE = ['Backlog', 'BacklogAge', 'ParkedEvents'];

/**
 * Says what is wrong with a reference to a metric, as an alarm or a dashboard makes it; undefined when it exists with
 * exactly these dimensions. (CloudWatch accepts any name and finds no data.)
 */
export function metricError(namespace: string, name: string, dimensions: string[]): string | undefined {
  const expected = METRICS[namespace]?.[name];
  if (!expected) return `unknown metric ${namespace} ${name}`;
  if (expected.toSorted().join() === dimensions.toSorted().join()) return undefined;
  return `${name} has dimensions ${expected.join(', ')}, not ${dimensions.join(', ') || 'none'}`;
}

function withDimensions(dimensions: string[], ...names: string[][]): Record<string, readonly string[]> {
  return Object.fromEntries(names.flat().map((name) => [name, dimensions]));
}
