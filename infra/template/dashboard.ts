// The dashboard's body is text within the template, which nobody reads before CloudWatch does.

import { isObject, resourcesOf, type Template } from './document.ts';

/** As a dashboard writes a metric: namespace, name, then dimension after dimension, then how to draw it. */
export type Row = (string | Record<string, unknown>)[];

interface Widget {
  properties?: { title?: string; metrics?: Row[] };
}

/** Each row of metrics on the template's dashboards, with its place. */
export function dashboardRows(template: Template): [at: string, row: Row][] {
  return bodiesOf(template).flatMap(([id, widgets = []]) =>
    widgets.flatMap(({ properties: { title, metrics = [] } = {} }) =>
      metrics
        .filter((row) => typeof row[0] === 'string')
        .map((row): [string, Row] => [`${id}.DashboardBody "${title}"`, row]),
    ),
  );
}

/** Dashboards whose body cannot be read. */
export function dashboardErrors(template: Template): string[] {
  return bodiesOf(template)
    .filter(([, widgets]) => widgets === undefined)
    .map(([id]) => `${id}.DashboardBody: is not JSON with a list of widgets`);
}

function bodiesOf(template: Template): [id: string, widgets: Widget[] | undefined][] {
  const dashboards = resourcesOf<{ DashboardBody: unknown }>(template, 'AWS::CloudWatch::Dashboard');
  return dashboards.map(({ id, properties }) => [id, widgetsOf(properties.DashboardBody)]);
}

function widgetsOf(body: unknown): Widget[] | undefined {
  const text = isObject(body) ? [body['Fn::Sub']].flat()[0] : body;
  try {
    const parsed: unknown = JSON.parse(String(text));
    const widgets = isObject(parsed) ? parsed['widgets'] : undefined;
    return Array.isArray(widgets) && widgets.every(isWidget) ? widgets : undefined;
  } catch {
    return undefined;
  }
}

function isWidget(value: unknown): value is Widget {
  if (!isObject(value)) return false;
  const { properties = {} } = value;
  if (!isObject(properties)) return false;
  const { metrics = [] } = properties;
  return Array.isArray(metrics) && metrics.every((row) => Array.isArray(row));
}
