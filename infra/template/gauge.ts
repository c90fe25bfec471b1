// An alarm that takes silence for a fault must be about something that speaks often enough.

import { METRICS } from '../../functions/shared/metrics.ts';
import { NAMESPACE } from '../../functions/shared/report.ts';
import { referent, resourcesOf, type Template } from './document.ts';

interface Rule {
  ScheduleExpression: string;
  State: string;
  Targets: { Arn: unknown }[];
}
/** A metric that an alarm looks at, and how often. */
export interface Watched {
  Namespace?: string;
  MetricName?: string;
  Period?: unknown;
}

const GAUGE = 'GaugeLambdaFunction';
const MEASURED = METRICS.filter(({ event }) => event === 'gauge.measured').map(({ name }) => name);
const UNIT_SECONDS: Readonly<Record<string, number>> = { minute: 60, hour: 3600, day: 86_400 };

/** What is wrong with an alarm that takes the gauge's silence for a fault; without the alarm's own name. */
export function silenceErrors(template: Template, silence: unknown, watched: Watched[]): string[] {
  if (silence !== 'breaching') return [];
  return watched
    .filter(({ Namespace, MetricName = '' }) => Namespace === NAMESPACE && MEASURED.includes(MetricName))
    .flatMap(({ Period }) => {
      const seconds = gaugeSeconds(template);
      if (seconds <= Number(Period)) return [];
      const pace = seconds === Infinity ? 'has no rule that runs it at a rate' : `runs every ${seconds} s`;
      return [`TreatMissingData: breaching at a Period of ${String(Period)} s, but the gauge ${pace}`];
    });
}

/** Seconds between two runs of the gauge; infinite when no enabled rule says a rate. */
function gaugeSeconds(template: Template): number {
  const rates = resourcesOf<Rule>(template, 'AWS::Events::Rule')
    .filter(({ properties: { State = 'ENABLED' } }) => State !== 'DISABLED')
    .filter(({ properties: { Targets } }) => (Targets ?? []).some(({ Arn }) => referent(Arn) === GAUGE))
    .map(({ properties: { ScheduleExpression } }) => secondsOf(String(ScheduleExpression)));
  return Math.min(...rates);
}

function secondsOf(expression: string): number {
  const [, count, unit = ''] = /^rate\((\d+) (minute|hour|day)s?\)$/.exec(expression) ?? [];
  return count === undefined ? Infinity : Number(count) * (UNIT_SECONDS[unit] ?? Infinity);
}
