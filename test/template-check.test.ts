// The template check finds nothing in what is packaged, and each fault that somebody may plant.

import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { templateErrors } from '../infra/template/check.ts';
import type { Template } from '../infra/template/document.ts';
import { packaged } from './support/packaged.ts';

const { template } = await packaged();
const runbook = await readFile('docs/operations.md', 'utf8');

/** The template with one value put in, or taken out when it is undefined; a path's dots separate its keys. */
function spoilt(place: string, value: unknown): Template {
  const copy = structuredClone(template);
  const keys = place.split('.');
  const last = keys.pop() ?? '';
  let at = copy.Resources as Record<string, unknown>;
  for (const [depth, key] of keys.entries()) {
    at[key] ??= {};
    at = at[key] as Record<string, unknown>;
    if (depth === 0) at = at['Properties'] as Record<string, unknown>;
  }
  if (value === undefined) delete at[last];
  else at[last] = value;
  return copy;
}

test('nothing is wrong with the packaged template', async () => {
  expect(await templateErrors(template, runbook)).toEqual([]);
});

const RELAY_POLICY = 'RelayRole.Policies.0.PolicyDocument.Statement';
const TRUST = 'TickScheduleRole.AssumeRolePolicyDocument.Statement.0';
const QUEUE_POLICY = 'StockQueueOnlyOverTls.PolicyDocument.Statement.0';
const MAPPING = 'StockEventSourceMappingSQSStockQueue';

describe.each([
  // What AWS would refuse, after a minute of a deploy or only when it rolls back.
  [
    'a misspelt property',
    'TickQueue.VisibilityTimeOut',
    150,
    /^TickQueue: unknown property VisibilityTimeOut$/,
  ],
  [
    'a misspelt property inside',
    'TickSchedule.FlexibleTimeWindow.Mod',
    'OFF',
    /^TickSchedule.FlexibleTimeWindow: unknown property Mod$/,
  ],
  [
    'a wrong type',
    'TickQueue.VisibilityTimeout',
    '150 s',
    /^TickQueue.VisibilityTimeout: must be integer, is "150 s"$/,
  ],
  [
    'text for a list',
    'StockQueueOnlyOverTls.Queues',
    'StockQueue',
    /^StockQueueOnlyOverTls.Queues: must be a list$/,
  ],
  ['a missing property', 'TickSchedule.Target.Arn', undefined, /^TickSchedule.Target: missing property Arn$/],
  [
    'a word that is none',
    'TickSchedule.FlexibleTimeWindow.Mode',
    'NEVER',
    /^TickSchedule.FlexibleTimeWindow.Mode: "NEVER" is not one of/,
  ],
  [
    'an unknown resource type',
    'Tock',
    { Type: 'AWS::SQS::Qeue' },
    /^Tock: unknown resource type AWS::SQS::Qeue$/,
  ],
  [
    'an attribute that is none',
    'TickQueue.KmsMasterKeyId',
    { 'Fn::GetAtt': ['StockQueue', 'Key'] },
    /^TickQueue.KmsMasterKeyId: AWS::SQS::Queue \(StockQueue\) has no attribute Key$/,
  ],
  [
    'a reference to nothing',
    'TickQueue.KmsMasterKeyId',
    { Ref: 'NoKey' },
    /^TickQueue.KmsMasterKeyId: refers to NoKey, which is not there$/,
  ],
  [
    'a substitution of nothing',
    'RelayLambdaFunction.Environment.Variables.OUTBOX_DESTINATIONS',
    { 'Fn::Sub': '${StokQueue}' },
    /^RelayLambdaFunction.Environment.Variables.OUTBOX_DESTINATIONS: refers to StokQueue/,
  ],
  [
    'an unknown condition',
    'BacklogAgeAlarm.AlarmActions',
    [{ 'Fn::If': ['Tells', 'a', 'b'] }],
    /^BacklogAgeAlarm.AlarmActions\[0\]: refers to condition Tells/,
  ],
  // What IAM would allow.
  [
    '* in an action',
    `${RELAY_POLICY}.0.Action`,
    'logs:*',
    /^RelayRole.Policies.relay\[0\].Action: logs:\* allows more/,
  ],
  [
    '* as a resource',
    `${RELAY_POLICY}.1.Resource`,
    '*',
    /^RelayRole.Policies.relay\[1\].Resource: "\*" is wider/,
  ],
  [
    '* inside a resource',
    `${RELAY_POLICY}.1.Resource`,
    { 'Fn::Sub': '${TickQueue.Arn}*' },
    /^RelayRole.Policies.relay\[1\].Resource: .* is wider/,
  ],
  [
    'NotAction',
    `${RELAY_POLICY}.0.NotAction`,
    'iam:PassRole',
    /^RelayRole.Policies.relay\[0\].NotAction: allows everything else/,
  ],
  [
    'anybody on a queue',
    `${QUEUE_POLICY}.Effect`,
    'Allow',
    /^StockQueueOnlyOverTls.PolicyDocument\[OnlyOverTls\].Principal: anybody$/,
  ],
  [
    'a confused deputy',
    `${TRUST}.Condition`,
    undefined,
    /^TickScheduleRole.*Condition: scheduler.amazonaws.com may act for any account/,
  ],
  [
    'a policy of somebody else',
    'RelayRole.ManagedPolicyArns',
    ['arn:aws:iam::aws:policy/AdministratorAccess'],
    /^RelayRole.ManagedPolicyArns: ".*AdministratorAccess" is no policy of this template$/,
  ],
  [
    'a policy of somebody else, perhaps',
    'RelayRole.ManagedPolicyArns',
    {
      'Fn::If': ['MakesAlarmTopic', ['arn:aws:iam::aws:policy/AdministratorAccess'], { Ref: 'AWS::NoValue' }],
    },
    /^RelayRole.ManagedPolicyArns: ".*AdministratorAccess" is no policy/,
  ],
  [
    'a wide statement, perhaps',
    `${RELAY_POLICY}.0`,
    {
      'Fn::If': [
        'MakesAlarmTopic',
        { Ref: 'AWS::NoValue' },
        { Effect: 'Allow', Action: 's3:*', Resource: 'x' },
      ],
    },
    /^RelayRole.Policies.relay\[0\].Action: s3:\* allows more/,
  ],
  [
    '? in an action',
    `${RELAY_POLICY}.0.Action`,
    'logs:PutLogEvent?',
    /^RelayRole.Policies.relay\[0\].Action: logs:PutLogEvent\? allows more/,
  ],
  [
    '? in a resource',
    `${RELAY_POLICY}.1.Resource`,
    'arn:aws:sqs:eu-central-1:000000000000:????',
    /^RelayRole.Policies.relay\[1\].Resource: .* is wider/,
  ],
  [
    'an action that only the deploy knows',
    `${RELAY_POLICY}.0.Action`,
    [{ 'Fn::Sub': 'logs:${AWS::Region}' }],
    /^RelayRole.Policies.relay\[0\].Action: .* is not plain text$/,
  ],
  ['text for a statement', `${RELAY_POLICY}.0`, 'Allow', /^RelayRole.Policies.relay\[0\]: is no statement$/],
  [
    'trust in another account',
    `${TRUST}.Principal.AWS`,
    'arn:aws:iam::000000000000:root',
    /^TickScheduleRole.AssumeRolePolicyDocument\[0\].Principal: trusts AWS/,
  ],
  [
    'trust in every account but one',
    `${TRUST}.Condition`,
    { StringNotEquals: { 'aws:SourceAccount': { Ref: 'AWS::AccountId' } } },
    /^TickScheduleRole.*Condition: scheduler.amazonaws.com may act for any account/,
  ],
  [
    'a role of two functions',
    'PruneLambdaFunction.Role',
    { 'Fn::GetAtt': ['RelayRole', 'Arn'] },
    /^PruneLambdaFunction.Role: shares its role/,
  ],
  // What SQS, Lambda and Scheduler would accept in silence (E2, C5, C6).
  [
    'no partial batch failure',
    `${MAPPING}.FunctionResponseTypes`,
    undefined,
    /^StockEventSourceMappingSQSStockQueue.FunctionResponseTypes: without ReportBatchItemFailures/,
  ],
  [
    'no concurrency',
    `${MAPPING}.ScalingConfig`,
    undefined,
    /^StockEventSourceMappingSQSStockQueue.ScalingConfig.MaximumConcurrency: missing/,
  ],
  [
    'reserved concurrency',
    'StockLambdaFunction.ReservedConcurrentExecutions',
    1,
    /^StockLambdaFunction.ReservedConcurrentExecutions: 1 is below/,
  ],
  [
    'a short visibility',
    'StockQueue.VisibilityTimeout',
    179,
    /^StockQueue.VisibilityTimeout: 179 is below 180/,
  ],
  ['no redrive', 'StockQueue.RedrivePolicy', undefined, /^StockQueue.RedrivePolicy: missing/],
  [
    'three receives',
    'StockQueue.RedrivePolicy.maxReceiveCount',
    3,
    /^StockQueue.RedrivePolicy.maxReceiveCount: 3 is below 5$/,
  ],
  [
    'a forgetful dead-letter queue',
    'StockDeadLetterQueue.MessageRetentionPeriod',
    undefined,
    /^StockDeadLetterQueue.MessageRetentionPeriod: 345600 is below/,
  ],
  [
    'dead letters out of order',
    'HistoryDeadLetterQueue.FifoQueue',
    undefined,
    /^HistoryDeadLetterQueue.FifoQueue: differs/,
  ],
  [
    'dead letters from anywhere',
    'StockDeadLetterQueue.RedriveAllowPolicy',
    undefined,
    /^StockDeadLetterQueue.RedriveAllowPolicy: any queue/,
  ],
  ['no encryption', 'TickQueue.SqsManagedSseEnabled', false, /^TickQueue.SqsManagedSseEnabled/],
  ['no TLS', 'StockQueueOnlyOverTls.Queues', [], /^StockQueue: no queue policy denies it without TLS/],
  [
    'TLS for one action',
    `${QUEUE_POLICY}.Action`,
    'sqs:SendMessage',
    /^StockQueue: no queue policy denies it without TLS/,
  ],
  [
    'TLS for one principal',
    `${QUEUE_POLICY}.Principal`,
    { AWS: 'arn:aws:iam::000000000000:root' },
    /^StockQueue: no queue policy denies it without TLS/,
  ],
  [
    'TLS for another queue',
    `${QUEUE_POLICY}.Resource`,
    { 'Fn::GetAtt': ['HistoryQueue', 'Arn'] },
    /^StockQueue: no queue policy denies it without TLS/,
  ],
  [
    'TLS on one more condition',
    `${QUEUE_POLICY}.Condition.StringEquals`,
    { 'aws:PrincipalAccount': '000000000000' },
    /^StockQueue: no queue policy denies it without TLS/,
  ],
  [
    'no TLS, beside another denial',
    'StockQueueOnlyOverTls.PolicyDocument.Statement',
    [
      {
        Effect: 'Allow',
        Principal: '*',
        Action: 'sqs:*',
        Resource: { 'Fn::GetAtt': ['StockQueue', 'Arn'] },
        Condition: { Bool: { 'aws:SecureTransport': 'false' } },
      },
      {
        Effect: 'Deny',
        Principal: '*',
        Action: 'sqs:PurgeQueue',
        Resource: { 'Fn::GetAtt': ['StockQueue', 'Arn'] },
      },
    ],
    /^StockQueue: no queue policy denies it without TLS/,
  ],
  ['no retention', 'RelayLogGroup.RetentionInDays', undefined, /^RelayLogGroup.RetentionInDays: missing/],
  [
    'a log group of another',
    'RelayLogGroup.LogGroupName',
    '/aws/lambda/other',
    /^RelayLambdaFunction: has no log group/,
  ],
  [
    'another runtime',
    'RelayLambdaFunction.Runtime',
    'nodejs20.x',
    /^RelayLambdaFunction.Runtime: nodejs20.x is not nodejs24.x$/,
  ],
  [
    'two ways to the database',
    'RelayLambdaFunction.Environment.Variables.DATABASE_USER',
    'outbox',
    /^RelayLambdaFunction.Environment: exactly one of/,
  ],
  [
    'a lease that ends early',
    'RelayLambdaFunction.Environment.Variables.OUTBOX_LEASE_SECONDS',
    '20',
    /^RelayLambdaFunction.Environment.OUTBOX_LEASE_SECONDS: 20 ends before/,
  ],
  [
    'a repeated tick',
    'TickSchedule.Target.RetryPolicy',
    undefined,
    /^TickSchedule.Target.RetryPolicy.MaximumRetryAttempts/,
  ],
  ['a schedule outside its group', 'TickSchedule.GroupName', 'default', /^TickSchedule.GroupName/],
  // What CloudWatch would wait for in vain.
  [
    'an unknown metric',
    'BacklogAgeAlarm.MetricName',
    'BacklogAgeSeconds',
    /^BacklogAgeAlarm.MetricName: unknown metric OutboxRelay BacklogAgeSeconds$/,
  ],
  [
    'a missing dimension',
    'StockApplyLagAlarm.Dimensions',
    [{ Name: 'service', Value: 'outbox-relay-prod' }],
    /^StockApplyLagAlarm.MetricName: ApplyLag has dimensions service, consumer, not service$/,
  ],
  [
    'another service',
    'BacklogAgeAlarm.Dimensions.0.Value',
    'outbox-relay',
    /^BacklogAgeAlarm.Dimensions: no function reports as service "outbox-relay"$/,
  ],
  [
    'an unknown metric in a formula',
    'FencedOutAlarm.Metrics.1.MetricStat.Metric.MetricName',
    'Fenced',
    /^FencedOutAlarm.MetricName: unknown metric/,
  ],
  [
    'an alarm that tells nobody',
    'BacklogAgeAlarm.AlarmActions',
    [],
    /^BacklogAgeAlarm.AlarmActions: tells nobody$/,
  ],
  [
    'an alarm without a runbook',
    'BacklogAgeAlarm.AlarmDescription',
    'Help! docs/operations.md#help',
    /^BacklogAgeAlarm.AlarmDescription: the runbook has no heading #help$/,
  ],
  [
    'silence without a meaning',
    'BacklogAgeAlarm.TreatMissingData',
    undefined,
    /^BacklogAgeAlarm.TreatMissingData/,
  ],
  [
    'a word for silence that is none',
    'BacklogAgeAlarm.TreatMissingData',
    'Breaching',
    /^BacklogAgeAlarm.TreatMissingData: "Breaching" is not one of/,
  ],
  [
    'more points than periods',
    'BacklogAgeAlarm.DatapointsToAlarm',
    4,
    /^BacklogAgeAlarm.DatapointsToAlarm: 4 is above EvaluationPeriods, 3$/,
  ],
  ['a period that is none', 'BacklogAgeAlarm.Period', 90, /^BacklogAgeAlarm.Period: 90 is not 10, 20, 30/],
  [
    'a period that is none in a formula',
    'FencedOutAlarm.Metrics.1.MetricStat.Period',
    45,
    /^FencedOutAlarm.Metrics.fenced.Period: 45 is not/,
  ],
  ['no statistic', 'BacklogAgeAlarm.Statistic', undefined, /^BacklogAgeAlarm.Statistic: exactly one/],
  ['two statistics', 'BacklogAgeAlarm.ExtendedStatistic', 'p99', /^BacklogAgeAlarm.Statistic: exactly one/],
  [
    'an unknown name in a formula',
    'FencedOutAlarm.Metrics.0.Expression',
    'FILL(fencd, 0) / published',
    /^FencedOutAlarm.Metrics.rate.Expression: names fencd, which is not defined$/,
  ],
  [
    'an alarm that is switched off',
    'BacklogAgeAlarm.ActionsEnabled',
    false,
    /^BacklogAgeAlarm.ActionsEnabled: false tells nobody$/,
  ],
  [
    'a consumer that is none',
    'StockApplyLagAlarm.Dimensions.1.Value',
    'stok',
    /^StockApplyLagAlarm.Dimensions: no function reports as consumer "stok"$/,
  ],
  [
    'a gauge that sleeps under its alarm',
    'GaugeEventsRuleSchedule1.State',
    'DISABLED',
    /^BacklogAgeAlarm.TreatMissingData: breaching .* the gauge has no rule/,
  ],
  [
    'a gauge that is slower than its alarm',
    'GaugeEventsRuleSchedule1.ScheduleExpression',
    'rate(5 minutes)',
    /^BacklogAgeAlarm.TreatMissingData: breaching at a Period of 60 s, but the gauge runs every 300 s$/,
  ],
  [
    'a dashboard that is not JSON',
    'Dashboard.DashboardBody',
    '{"widgets":[}',
    /^Dashboard.DashboardBody: is not JSON/,
  ],
  ['a resource of nothing', 'TickQueue', null, /^TickQueue: must be an object with a Type$/],
  [
    'an unknown metric on the dashboard',
    'Dashboard.DashboardBody',
    {
      'Fn::Sub':
        '{"widgets":[{"properties":{"title":"1 Backlog","metrics":[["OutboxRelay","Backlogg","service","outbox-relay-prod"]]}}]}',
    },
    /^Dashboard.DashboardBody "1 Backlog".MetricName: unknown metric OutboxRelay Backlogg$/,
  ],
])('%s', (_, place, value, refusal) => {
  test(`is found at ${place}`, async () => {
    expect(await templateErrors(spoilt(place, value), runbook)).toContainEqual(
      expect.stringMatching(refusal),
    );
  });
});
