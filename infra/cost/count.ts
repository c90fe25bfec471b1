// Counts what a month, or a million events, asks of AWS; from the packaged template.

import { referent, resourcesOf, type Template } from '../template/document.ts';
import { METRICS, NAMESPACE, SENT_WHEN_IDLE } from '../template/metrics.ts';
import { ASSUMPTIONS, type Item } from './prices.ts';

/** So many units of one item, and what for. */
export interface Line {
  what: string;
  item: Item;
  count: number;
}

interface Lambda {
  MemorySize: number;
}
interface Rule {
  State: string;
  ScheduleExpression: string;
  Targets: { Arn: unknown }[];
}
interface Schedule {
  State: string;
  ScheduleExpression: string;
  Target: { Input: { 'Fn::Sub': string } };
}
interface Mapping {
  EventSourceArn: unknown;
}

const { hoursPerMonth } = ASSUMPTIONS;
const MINUTES = { minute: 1, hour: 60, day: 1_440 };
const GB_BYTES = 1e9;
const GB_MEMORY = 1_024;
const BILLED_REQUEST_BYTES = 65_536;
const MILLION = 1e6;

/** An idle month of the relay itself: schedule, tick queue, relay and prune. */
export function idleRelay(template: Template): Line[] {
  const [schedule] = resourcesOf<Schedule>(template, 'AWS::Scheduler::Schedule');
  const { State, ScheduleExpression = '', Target } = schedule?.properties ?? {};
  const starts = State === 'ENABLED' ? perMonth(ScheduleExpression) : 0;
  const { Entries } = JSON.parse(Target?.Input['Fn::Sub'] ?? '{"Entries":[]}') as { Entries: unknown[] };
  const ticks = starts * Entries.length;
  return [
    { what: 'the tick’s schedule', item: 'schedule', count: starts },
    { what: 'ticks sent, six in a request', item: 'standardQueue', count: starts },
    { what: 'ticks received and deleted', item: 'standardQueue', count: 2 * ticks },
    { what: 'polls of the tick queue', item: 'standardQueue', count: pollsPerMonth() },
    ...runs(
      template,
      'relay',
      ticks,
      ASSUMPTIONS.idleTickMilliseconds.value,
      ASSUMPTIONS.logBytesPerIdleTick.value,
    ),
    ...scheduledRuns(template, 'prune'),
  ];
}

/** What watching costs in an idle month: the gauge's runs. */
export const idleGauge = (template: Template): Line[] => scheduledRuns(template, 'gauge');

/** What telling costs in an idle month: the gauge's metrics (the relay then sends none), alarms, dashboards. */
export function telling(template: Template): Line[] {
  const alarms = resourcesOf<{ Metrics?: { MetricStat?: unknown }[] }>(template, 'AWS::CloudWatch::Alarm');
  const watched = alarms.map(
    ({ properties: { Metrics } }) => Metrics?.filter(({ MetricStat }) => MetricStat).length ?? 1,
  );
  return [
    { what: 'metrics of the gauge', item: 'metric', count: SENT_WHEN_IDLE.length },
    { what: 'alarms', item: 'alarm', count: watched.reduce((sum, count) => sum + count, 0) },
    {
      what: 'dashboard',
      item: 'dashboard',
      count: resourcesOf(template, 'AWS::CloudWatch::Dashboard').length,
    },
  ];
}

/** Further metrics, in hours in which events flow: the relay's, and one consumer's. */
export function busyMetrics(): Line[] {
  const count = Object.keys(METRICS[NAMESPACE] ?? {}).length - SENT_WHEN_IDLE.length;
  return [{ what: 'metrics of relay and one consumer', item: 'metric', count }];
}

/** An idle month of the consumers: nothing but the polls of their queues. */
export function idleConsumers(template: Template): Line[] {
  return consumerQueues(template).map(({ id, isFifo }) => ({
    what: `polls of ${id}`,
    item: isFifo ? 'fifoQueue' : 'standardQueue',
    count: pollsPerMonth(),
  }));
}

/** A million events to one standard queue and through its consumer. */
export function millionEvents(template: Template): Line[] {
  const { eventBytes, batchFill, relayEventsPerSecond, applyMilliseconds, effectsAtOnce, nudgesPerEvent } =
    ASSUMPTIONS;
  const batches = MILLION / batchFill.value;
  const requestsPerBatch = Math.ceil((eventBytes.value * batchFill.value) / BILLED_REQUEST_BYTES);
  const relaySeconds = MILLION / relayEventsPerSecond.value;
  const batchMs = (batchFill.value * applyMilliseconds.value) / effectsAtOnce.value;
  return [
    { what: 'nudges', item: 'standardQueue', count: MILLION * nudgesPerEvent.value },
    { what: 'sent, ten in a call', item: 'standardQueue', count: batches * requestsPerBatch },
    { what: 'received', item: 'standardQueue', count: batches * requestsPerBatch },
    { what: 'deleted', item: 'standardQueue', count: batches },
    { what: 'relay at work', item: 'compute', count: relaySeconds * memoryOf(template, 'relay') },
    ...runs(template, 'stock', batches, batchMs),
  ];
}

/** Hours of what stands there whether or not it is used, by choice. */
export const CHOICES: readonly { choice: string; lines: Line[] }[] = [
  { choice: '`database: secret`', lines: [{ what: 'secret', item: 'secret', count: 1 }] },
  {
    choice: '`network: endpoints`',
    lines: [
      {
        what: 'three endpoints',
        item: 'endpoint',
        count: 3 * ASSUMPTIONS.endpointZones.value * hoursPerMonth.value,
      },
    ],
  },
  {
    choice: '`database: aurora`, never paused',
    lines: [
      { what: 'Aurora', item: 'aurora', count: ASSUMPTIONS.auroraLeastAcu.value * hoursPerMonth.value },
    ],
  },
  {
    choice: '`database: aurora-proxy`, besides',
    lines: [{ what: 'proxy', item: 'proxy', count: ASSUMPTIONS.proxyLeastAcu.value * hoursPerMonth.value }],
  },
];

function scheduledRuns(template: Template, name: string): Line[] {
  const rule = resourcesOf<Rule>(template, 'AWS::Events::Rule').find(
    ({ properties }) => referent(properties.Targets?.[0]?.Arn) === lambdaId(name),
  );
  const { State, ScheduleExpression = '' } = rule?.properties ?? {};
  const count = State === 'ENABLED' ? perMonth(ScheduleExpression) : 0;
  return [
    { what: `${name}’s schedule`, item: 'rule', count },
    ...runs(template, name, count, ASSUMPTIONS.idleRunMilliseconds.value),
  ];
}

function runs(
  template: Template,
  name: string,
  count: number,
  milliseconds: number,
  logBytes: number = ASSUMPTIONS.logBytesPerRun.value,
): Line[] {
  return [
    { what: `${name}: runs`, item: 'invocation', count },
    {
      what: `${name}: time`,
      item: 'compute',
      count: ((count * milliseconds) / 1000) * memoryOf(template, name),
    },
    { what: `${name}: log`, item: 'log', count: (count * logBytes) / GB_BYTES },
  ];
}

function consumerQueues(template: Template): { id: string; isFifo: boolean }[] {
  return resourcesOf<Mapping>(template, 'AWS::Lambda::EventSourceMapping')
    .map(({ properties }) => referent(properties.EventSourceArn) ?? '')
    .filter((id) => id !== 'TickQueue')
    .map((id) => ({ id, isFifo: template.Resources[id]?.Properties?.['FifoQueue'] === true }));
}

function memoryOf(template: Template, name: string): number {
  const { MemorySize } = (template.Resources[lambdaId(name)]?.Properties ?? {}) as Partial<Lambda>;
  if (MemorySize === undefined) throw new Error(`the template has no function ${name}`);
  return MemorySize / GB_MEMORY;
}

function perMonth(rate: string): number {
  const [, count = '', unit = ''] = /^rate\((\d+) (minute|hour|day)s?\)$/.exec(rate) ?? [];
  const minutes = Number(count) * (MINUTES[unit as keyof typeof MINUTES] ?? NaN);
  if (!(minutes > 0)) throw new Error(`cannot count ${rate || 'a missing schedule'}`);
  return (hoursPerMonth.value * 60) / minutes;
}

const pollsPerMonth = (): number => ASSUMPTIONS.pollsPerMinute.value * hoursPerMonth.value * 60;

const lambdaId = (name: string): string => `${name.charAt(0).toUpperCase()}${name.slice(1)}LambdaFunction`;
