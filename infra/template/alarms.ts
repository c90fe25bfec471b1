// Alarms and dashboard: CloudWatch accepts a metric that does not exist, and then shows nothing for ever.

import { numberErrors, type MathEntry } from './alarm-numbers.ts';
import { dashboardErrors, dashboardRows, type Row } from './dashboard.ts';
import { resourcesOf, type Template } from './document.ts';
import { silenceErrors } from './gauge.ts';
import { metricError } from './metrics.ts';

interface Metric {
  Namespace?: string;
  MetricName?: string;
  Dimensions?: { Name: string; Value: unknown }[];
  Period?: unknown;
}
interface Alarm extends Metric {
  AlarmDescription: string;
  AlarmActions: unknown[];
  ActionsEnabled: unknown;
  TreatMissingData: string;
  Metrics: MathEntry[];
}
interface Lambda {
  Environment: { Variables?: Record<string, unknown> };
}

/**
 * Alarms and dashboard rows about metrics that do not exist or that belong to another service or consumer, alarms that
 * tell nobody, cannot fire or say nothing about silence, and alarms whose description leads to no heading of the runbook.
 *
 * @param headings anchors of the runbook, such as `backlog-age`
 * @returns one line each, beginning with the logical id and the property; empty when nothing was found.
 */
export function alarmErrors(template: Template, headings: ReadonlySet<string>): string[] {
  const reporters = reportersOf(template);
  const metric = (at: string, { Namespace = '', MetricName = '', Dimensions = [] }: Metric): string[] => {
    const wrong = metricError(
      Namespace,
      MetricName,
      Dimensions.map((dimension) => dimension.Name),
    );
    const strangers = Dimensions.filter(({ Name, Value }) => reporters[Name]?.has(Value) === false);
    return [
      ...(wrong ? [`${at}.MetricName: ${wrong}`] : []),
      ...strangers.map(
        ({ Name, Value }) => `${at}.Dimensions: no function reports as ${Name} ${JSON.stringify(Value)}`,
      ),
    ];
  };
  const alarms = resourcesOf<Alarm>(template, 'AWS::CloudWatch::Alarm').flatMap(({ id, properties }) => {
    const watched = metricsOf(properties);
    const own = [
      ...alarmOnlyErrors(properties, headings),
      ...numberErrors(properties),
      ...silenceErrors(template, properties.TreatMissingData, watched),
    ];
    return [...watched.flatMap((each) => metric(id, each)), ...own.map((error) => `${id}.${error}`)];
  });
  const rows = dashboardRows(template).flatMap(([at, row]) => metric(at, metricOf(row)));
  return [...alarms, ...dashboardErrors(template), ...rows];
}

function alarmOnlyErrors(alarm: Partial<Alarm>, headings: ReadonlySet<string>): string[] {
  const anchor = /#([\w-]+)/.exec(alarm.AlarmDescription ?? '')?.[1];
  const errors: string[] = [];
  if (anchor === undefined) errors.push('AlarmDescription: names no section of the runbook');
  else if (!headings.has(anchor)) errors.push(`AlarmDescription: the runbook has no heading #${anchor}`);
  if (!alarm.AlarmActions?.length) errors.push('AlarmActions: tells nobody');
  return errors;
}

function metricsOf(alarm: Partial<Alarm>): Metric[] {
  const math = (alarm.Metrics ?? []).flatMap(({ MetricStat }) =>
    MetricStat ? [{ ...(MetricStat.Metric as Metric), Period: MetricStat.Period }] : [],
  );
  return alarm.Metrics ? math : [alarm];
}

function metricOf(row: Row): Metric {
  const [Namespace = '', MetricName = '', ...rest] = row.filter((cell) => typeof cell === 'string');
  const Dimensions = rest
    .map((Name, index) => ({ Name, Value: rest[index + 1] }))
    .filter((_, index) => index % 2 === 0);
  return { Namespace, MetricName, Dimensions };
}

/** Who reports, by the dimension that says so. A consumer is a function with a queue, by its short name. */
function reportersOf(template: Template): Readonly<Record<string, Set<unknown>>> {
  const lambdas = resourcesOf<Lambda>(template, 'AWS::Lambda::Function').map(({ id, properties }) => ({
    name: `${id.charAt(0).toLowerCase()}${id.slice(1)}`.replace(/LambdaFunction$/, ''),
    variables: properties.Environment?.Variables ?? {},
  }));
  return {
    service: new Set(lambdas.map(({ variables }) => variables['POWERTOOLS_SERVICE_NAME'])),
    consumer: new Set(
      lambdas.filter(({ variables }) => 'OUTBOX_QUEUE_URL' in variables).map(({ name }) => name),
    ),
  };
}
