// The numbers of an alarm: CloudWatch refuses some only at the deploy, and with others the alarm can never fire.

import { isObject } from './document.ts';

/** One entry of an alarm's metric math. */
export interface MathEntry {
  Id: string;
  Expression?: string;
  Period?: number;
  MetricStat?: { Metric: Record<string, unknown>; Period?: number };
}
/** What is read here of an alarm. */
export interface Numbers {
  ActionsEnabled?: unknown;
  TreatMissingData?: unknown;
  DatapointsToAlarm?: unknown;
  EvaluationPeriods?: unknown;
  Period?: unknown;
  Statistic?: unknown;
  ExtendedStatistic?: unknown;
  Metrics?: MathEntry[];
}

const SILENCE = ['breaching', 'notBreaching', 'ignore', 'missing'];
/** Of metrics in high resolution; others have a minute or more. */
const SHORT_PERIODS = [10, 20, 30];

/** What is wrong with an alarm's numbers and with the names in its formula; without the alarm's own name. */
export function numberErrors(alarm: Numbers): string[] {
  const { ActionsEnabled, TreatMissingData: silence, DatapointsToAlarm: points, EvaluationPeriods } = alarm;
  const errors: string[] = [];
  if (String(ActionsEnabled) === 'false') errors.push('ActionsEnabled: false tells nobody');
  if (!silence) errors.push('TreatMissingData: says nothing about silence');
  else if (!SILENCE.includes(String(silence))) {
    errors.push(`TreatMissingData: ${JSON.stringify(silence)} is not one of ${SILENCE.join(', ')}`);
  }
  if (Number(points) > Number(EvaluationPeriods)) {
    errors.push(
      `DatapointsToAlarm: ${String(points)} is above EvaluationPeriods, ${String(EvaluationPeriods)}`,
    );
  }
  return [...errors, ...(alarm.Metrics ? mathErrors(alarm.Metrics) : singleErrors(alarm))];
}

function singleErrors({ Statistic, ExtendedStatistic, Period }: Numbers): string[] {
  const isOne = (Statistic === undefined) !== (ExtendedStatistic === undefined);
  return [
    ...(isOne ? [] : ['Statistic: exactly one of Statistic, ExtendedStatistic is needed']),
    ...periodErrors('Period', Period ?? 'missing'),
  ];
}

function mathErrors(entries: MathEntry[]): string[] {
  const ids = new Set(entries.map(({ Id }) => Id));
  return entries.flatMap(({ Id, Expression, Period, MetricStat }) => [
    ...namesIn(Expression)
      .filter((name) => !ids.has(name))
      .map((name) => `Metrics.${Id}.Expression: names ${name}, which is not defined`),
    ...periodErrors(`Metrics.${Id}.Period`, MetricStat ? (MetricStat.Period ?? 'missing') : Period),
  ]);
}

/** Ids begin with a small letter; functions and operators are written in capitals. What is quoted is no id. */
function namesIn(expression: unknown): string[] {
  if (typeof expression !== 'string') return [];
  const unquoted = expression.replaceAll(/"[^"]*"|'[^']*'/g, '');
  return [...new Set([...unquoted.matchAll(/\b[a-z]\w*/g)].map(([name]) => name))];
}

function periodErrors(at: string, period: unknown): string[] {
  if (period === undefined || isObject(period)) return [];
  const seconds = Number(period);
  if (SHORT_PERIODS.includes(seconds) || (seconds > 0 && seconds % 60 === 0)) return [];
  return [`${at}: ${String(period)} is not ${SHORT_PERIODS.join(', ')} or a multiple of 60`];
}
