// Alarms and dashboard agree with the queues, the schedules and the documents they are about.

import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { anchorsOf } from '../infra/template/check.ts';
import { dashboardRows } from '../infra/template/dashboard.ts';
import { METRICS, NAMESPACE } from '../infra/template/metrics.ts';
import { packaged } from './support/packaged.ts';
import {
  capital,
  CONSUMERS,
  deadLetterQueueOf,
  lookups,
  type Mapping,
  type Queue,
} from './support/template.ts';

const { template, resources } = await packaged();
const { propertiesOf, lambdaOf, variablesOf, named } = lookups(resources);
const runbook = await readFile('docs/operations.md', 'utf8');

interface Alarm {
  AlarmDescription: string;
  Period: number;
  EvaluationPeriods: number;
  Threshold: number;
  TreatMissingData: string;
}
const alarms = named('AWS::CloudWatch::Alarm').map(([id]) => [id, propertiesOf<Alarm>(id)] as const);
const anchorOf = ({ AlarmDescription }: Alarm): string => AlarmDescription.split('#')[1] ?? '';

/** Scheduler is precise to a minute; the ticks inside it are ten seconds apart. */
const WORST_GAP_SECONDS = 70;

test('there is an alarm for each thing that needs a person', () => {
  const consumers = CONSUMERS.map(capital).flatMap((name) =>
    ['DeadLetters', 'DeadLettersAge', 'Errors', 'ApplyLag'].map((kind) => `${name}${kind}Alarm`),
  );
  const relay = ['BacklogAge', 'ParkedEvents', 'FencedOut', 'RelayErrors', 'RelayThrottles', 'PruneErrors'];
  expect(alarms.map(([id]) => id)).toEqual([...relay.map((name) => `${name}Alarm`), ...consumers]);
});

test('the runbook has a section for each alarm, with symptom, first look and remedies, and no section too many', () => {
  const [, chapter = ''] = runbook.split('## When an alarm wakes you\n');
  const [sections = ''] = chapter.split('\n## ');
  for (const section of sections.split('\n### ').slice(1)) {
    expect(section).toMatch(/\*\*Symptom\.\*\*[^]*\*\*First look\.\*\*[^]*\*\*Causes and remedies\.\*\*/);
  }
  expect([...anchorsOf(sections)].toSorted()).toEqual(
    [...new Set(alarms.map(([, alarm]) => anchorOf(alarm)))].toSorted(),
  );
});

describe('backlog age', () => {
  const alarm = propertiesOf<Alarm>('BacklogAgeAlarm');

  test('does not take the schedule’s own precision for a fault', () => {
    expect(alarm.Threshold).toBeGreaterThanOrEqual(WORST_GAP_SECONDS + lambdaOf('relay').Timeout);
    expect(alarm.Threshold).toBeLessThanOrEqual(300);
  });

  test('takes silence for a fault, at the gauge’s own pace', () => {
    expect(alarm).toMatchObject({ TreatMissingData: 'breaching', Period: 60, EvaluationPeriods: 3 });
    expect(propertiesOf('GaugeEventsRuleSchedule1')).toMatchObject({
      ScheduleExpression: 'rate(1 minute)',
      State: 'ENABLED',
    });
  });

  test('says its numbers in the runbook', () => {
    expect(runbook).toContain(`waited longer than ${alarm.Threshold} s`);
    expect(runbook).toContain(`two ticks may be ${WORST_GAP_SECONDS} s apart`);
    expect(runbook).toContain(`a run takes up to ${lambdaOf('relay').Timeout} s`);
  });
});

test.each(CONSUMERS)('a dead letter of %s is told again halfway to its deletion', (consumer) => {
  const { MessageRetentionPeriod } = propertiesOf<Queue>(deadLetterQueueOf(consumer));
  expect(propertiesOf<Alarm>(`${capital(consumer)}DeadLettersAgeAlarm`).Threshold).toBe(
    MessageRetentionPeriod / 2,
  );
});

test('only silence of the gauge is an alarm', () => {
  const breaching = alarms.filter(([, alarm]) => alarm.TreatMissingData === 'breaching');
  expect(breaching.map(([id]) => id)).toEqual(['BacklogAgeAlarm']);
});

test('one run of prune that fails is told, however rarely it runs', () => {
  expect(propertiesOf<Alarm>('PruneErrorsAlarm')).toMatchObject({
    EvaluationPeriods: 1,
    DatapointsToAlarm: 1,
    Threshold: 0,
  });
});

test('every consumer that a mapping starts has its alarms', () => {
  const started = named('AWS::Lambda::EventSourceMapping').map(
    ([id]) => propertiesOf<Mapping>(id).FunctionName['Fn::GetAtt'][0],
  );
  for (const lambda of started) {
    const errors = alarms.filter(([, alarm]) => JSON.stringify(alarm).includes(`{"Ref":"${lambda}"}`));
    expect(errors.length, lambda).toBeGreaterThan(0);
  }
});

test('the topic is made only where none is given, and takes nothing without TLS', () => {
  expect(template.Conditions).toMatchObject({ MakesAlarmTopic: { 'Fn::Equals': ['', ''] } });
  for (const id of ['AlarmTopic', 'AlarmTopicPolicy']) {
    expect(resources[id]).toMatchObject({ Condition: 'MakesAlarmTopic' });
  }
  expect(resources['AlarmMail']).toMatchObject({ Condition: 'SendsAlarmMail' });
});

describe('the dashboard', () => {
  const { DashboardBody } = propertiesOf<{ DashboardBody: { 'Fn::Sub': string } }>('Dashboard');
  const { widgets } = JSON.parse(DashboardBody['Fn::Sub']) as {
    widgets: { x: number; y: number; width: number; properties: { title: string } }[];
  };

  test('shows an event’s way from left to right', () => {
    const first = widgets.filter(({ y }) => y === 0).toSorted((a, b) => a.x - b.x);
    expect(first.map(({ properties }) => properties.title)).toEqual([
      '1 Backlog',
      '2 Claimed',
      '3 Published',
      '4 Queues',
      '5 Applied',
      '6 Dead letters',
    ]);
    expect(first.reduce((sum, { width }) => sum + width, 0)).toBe(24);
  });

  test('shows each of the relay’s own metrics', () => {
    const shown = new Set(dashboardRows(template).map(([, row]) => row[1]));
    const missing = Object.keys(METRICS[NAMESPACE] ?? {}).filter((name) => !shown.has(name));
    expect(missing).toEqual([]);
  });
});

test('functions report as the service that alarms and dashboard look for', () => {
  expect(variablesOf('gauge')).toMatchObject({
    POWERTOOLS_METRICS_NAMESPACE: NAMESPACE,
    POWERTOOLS_SERVICE_NAME: 'outbox-relay-prod',
  });
});
