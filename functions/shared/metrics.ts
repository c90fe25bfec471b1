/** Lines of the log that metrics come from. */
export type MeasuredEvent = 'relay.tick' | 'consumer.batch' | 'gauge.measured';

/** One CloudWatch metric, and where in a line of the log its value stands. */
export interface Metric {
  readonly name: string;
  readonly unit: 'Count' | 'Seconds' | 'Milliseconds';
  readonly event: MeasuredEvent;
  /** A number; a list, of which each is a value; or, by reason, an object of reason and number. */
  readonly field: string;
  /** The dimension beside `service`. */
  readonly by?: 'consumer' | 'reason';
  /**
   * When a value goes out. `always`: a zero too, since an alarm looks at it. `above zero`, the usual: CloudWatch bills a
   * metric for each hour in which it has a value, and an idle tick should cost nothing. `after a claim`: not of an idle tick.
   */
  readonly sent: 'always' | 'above zero' | 'after a claim' | 'each applied event';
}

const tick = (name: string, field: string, more: Partial<Metric> = {}): Metric => ({
  name,
  unit: 'Count',
  event: 'relay.tick',
  field,
  sent: 'above zero',
  ...more,
});

const batch = (name: string, field: string, more: Partial<Metric> = {}): Metric => ({
  name,
  unit: 'Count',
  event: 'consumer.batch',
  field,
  by: 'consumer',
  sent: 'above zero',
  ...more,
});

const gauge = (name: string, field: string, unit: Metric['unit'] = 'Count'): Metric => ({
  name,
  unit,
  event: 'gauge.measured',
  field,
  sent: 'always',
});

/** Every metric there is; alarms are built on these names. `npm test` holds docs/metrics.md against it. */
export const METRICS: readonly Metric[] = [
  tick('Claimed', 'claimed'),
  tick('Published', 'published'),
  tick('Acknowledged', 'acknowledged'),
  tick('FencedOut', 'fencedOut'),
  tick('Released', 'released'),
  tick('Released', 'releasedBy', { by: 'reason' }),
  tick('Parked', 'parked'),
  tick('Parked', 'parkedBy', { by: 'reason' }),
  tick('Unanswered', 'unanswered'),
  tick('TickDuration', 'milliseconds', { unit: 'Milliseconds', sent: 'after a claim' }),
  tick('OldestClaimed', 'oldestSeconds', { unit: 'Seconds', sent: 'after a claim' }),
  gauge('Backlog', 'backlog'),
  gauge('BacklogAge', 'backlogAgeSeconds', 'Seconds'),
  gauge('ParkedEvents', 'parked'),
  batch('Applied', 'applied'),
  batch('Duplicates', 'duplicates'),
  batch('Terminal', 'terminal'),
  batch('Retried', 'retried'),
  batch('ApplyLag', 'applyLags', { unit: 'Milliseconds', sent: 'each applied event' }),
];

/** One value of a metric, and the dimensions beside `service`. */
export interface Measurement {
  readonly metric: Metric;
  readonly dimensions: Readonly<Record<string, string>>;
  readonly value: number;
}

/** The measurements in a line of the log. */
export function measure(event: string, fields: Readonly<Record<string, unknown>>): Measurement[] {
  return METRICS.filter((metric) => metric.event === event).flatMap((metric) => {
    if (metric.sent === 'after a claim' && !fields['claimed']) return [];
    return valuesOf(metric, fields).filter(({ value }) => metric.sent !== 'above zero' || value > 0);
  });
}

function valuesOf(metric: Metric, fields: Readonly<Record<string, unknown>>): Measurement[] {
  const given = fields[metric.field];
  if (metric.by === 'reason') {
    const byReason = Object.entries((given ?? {}) as Record<string, number>);
    return byReason.map(([reason, value]) => ({ metric, dimensions: { reason }, value }));
  }
  const dimensions: Measurement['dimensions'] =
    metric.by === 'consumer' ? { consumer: String(fields['consumer']) } : {};
  return [given]
    .flat()
    .flatMap((value) => (typeof value === 'number' ? [{ metric, dimensions, value }] : []));
}
