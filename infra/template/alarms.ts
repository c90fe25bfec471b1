// Alarms and dashboard: CloudWatch accepts a metric that does not exist, and then shows nothing for ever.

import { isObject, resourcesOf, type Template } from './document.ts';
import { metricError } from './metrics.ts';

interface Metric {
  Namespace?: string;
  MetricName?: string;
  Dimensions?: { Name: string; Value: unknown }[];
}
interface Alarm extends Metric {
  AlarmDescription: string;
  AlarmActions: unknown[];
  TreatMissingData: string;
  Metrics: { Id: string; Expression?: string; MetricStat?: { Metric: Metric } }[];
}
/** As a dashboard writes one: namespace, name, then dimension after dimension, then how to draw it. */
type Row = (string | Record<string, unknown>)[];

/**
 * Alarms and dashboard rows about metrics that do not exist or that belong to another service, alarms that tell
 * nobody or say nothing about silence, and alarms whose description leads to no heading of the runbook.
 *
 * @param headings anchors of the runbook, such as `backlog-age`
 * @returns one line each, beginning with the logical id and the property; empty when nothing was found.
 */
export function alarmErrors(template: Template, headings: ReadonlySet<string>): string[] {
  const services = servicesOf(template);
  const metric = (at: string, { Namespace = '', MetricName = '', Dimensions = [] }: Metric): string[] => {
    const wrong = metricError(
      Namespace,
      MetricName,
      Dimensions.map((dimension) => dimension.Name),
    );
    const service = Dimensions.find((dimension) => dimension.Name === 'service')?.Value;
    return [
      ...(wrong ? [`${at}.MetricName: ${wrong}`] : []),
      ...(service === undefined || services.has(service)
        ? []
        : [`${at}.Dimensions: no function reports as service ${String(service)}`]),
    ];
  };
  const alarms = resourcesOf<Alarm>(template, 'AWS::CloudWatch::Alarm').flatMap(({ id, properties }) => [
    ...metricsOf(properties).flatMap((each) => metric(id, each)),
    ...alarmOnlyErrors(id, properties, headings),
  ]);
  const rows = dashboardRows(template).flatMap(([at, row]) => metric(at, metricOf(row)));
  return [...alarms, ...rows];
}

/** Each row of metrics on the template's dashboards, with its place. */
export function dashboardRows(template: Template): [at: string, row: Row][] {
  const dashboards = resourcesOf<{ DashboardBody: unknown }>(template, 'AWS::CloudWatch::Dashboard');
  return dashboards.flatMap(({ id, properties: { DashboardBody: body } }) => {
    const text = isObject(body) ? String(body['Fn::Sub']) : String(body);
    const { widgets } = JSON.parse(text) as {
      widgets: { properties: { title?: string; metrics?: Row[] } }[];
    };
    return widgets.flatMap(({ properties: { title, metrics = [] } }) =>
      metrics
        .filter((row) => typeof row[0] === 'string')
        .map((row): [string, Row] => [`${id}.DashboardBody "${title}"`, row]),
    );
  });
}

function alarmOnlyErrors(id: string, alarm: Partial<Alarm>, headings: ReadonlySet<string>): string[] {
  const anchor = /#([\w-]+)/.exec(alarm.AlarmDescription ?? '')?.[1];
  const errors: string[] = [];
  if (anchor === undefined) errors.push(`${id}.AlarmDescription: names no section of the runbook`);
  else if (!headings.has(anchor))
    errors.push(`${id}.AlarmDescription: the runbook has no heading #${anchor}`);
  if (!alarm.AlarmActions?.length) errors.push(`${id}.AlarmActions: tells nobody`);
  if (!alarm.TreatMissingData) errors.push(`${id}.TreatMissingData: says nothing about silence`);
  return errors;
}

function metricsOf(alarm: Partial<Alarm>): Metric[] {
  const math = (alarm.Metrics ?? []).flatMap(({ MetricStat }) => (MetricStat ? [MetricStat.Metric] : []));
  return alarm.Metrics ? math : [alarm];
}

function metricOf(row: Row): Metric {
  const [Namespace = '', MetricName = '', ...rest] = row.filter((cell) => typeof cell === 'string');
  const Dimensions = rest
    .map((Name, index) => ({ Name, Value: rest[index + 1] }))
    .filter((_, index) => index % 2 === 0);
  return { Namespace, MetricName, Dimensions };
}

function servicesOf(template: Template): Set<unknown> {
  const lambdas = resourcesOf<{ Environment: { Variables?: Record<string, unknown> } }>(
    template,
    'AWS::Lambda::Function',
  );
  return new Set(
    lambdas.map(({ properties }) => properties.Environment?.Variables?.['POWERTOOLS_SERVICE_NAME']),
  );
}
