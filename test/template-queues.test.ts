// The tick, the queues and their mappings, in the packaged template.

import { describe, expect, test } from 'vitest';
import { packaged } from './support/packaged.ts';
import {
  capital,
  CONSUMERS,
  deadLetterQueueOf,
  FUNCTIONS,
  lookups,
  mappingOf,
  queueOf,
  type Lambda,
  type Mapping,
  type Queue,
  type Role,
} from './support/template.ts';

const { resources } = await packaged();
const { propertiesOf, lambdaOf, named, allowedTo } = lookups(resources);

describe('the tick', () => {
  interface Schedule {
    Target: { Input: { 'Fn::Sub': string } };
  }

  test('is six messages a minute, ten seconds apart, sent by the schedule itself', () => {
    const schedule = propertiesOf<Schedule>('TickSchedule');
    expect(schedule).toMatchObject({
      State: 'ENABLED',
      ScheduleExpression: 'rate(1 minute)',
      FlexibleTimeWindow: { Mode: 'OFF' },
      GroupName: { Ref: 'TickScheduleGroup' },
      Target: {
        Arn: { 'Fn::Sub': 'arn:${AWS::Partition}:scheduler:::aws-sdk:sqs:sendMessageBatch' },
        RoleArn: { 'Fn::GetAtt': ['TickScheduleRole', 'Arn'] },
        RetryPolicy: { MaximumRetryAttempts: 0, MaximumEventAgeInSeconds: 60 },
      },
    });
    const input: unknown = JSON.parse(schedule.Target.Input['Fn::Sub']);
    const delays = [0, 10, 20, 30, 40, 50];
    expect(input).toEqual({
      QueueUrl: '${TickQueue}',
      Entries: delays.map((delay) => ({ Id: String(delay), MessageBody: 'tick', DelaySeconds: delay })),
    });
  });

  test('goes stale instead of piling up', () => {
    const queue = propertiesOf<Queue>('TickQueue');
    expect(queue.MessageRetentionPeriod).toBe(120);
    expect(queue.RedrivePolicy).toBeUndefined();
  });

  test('starts relays that may overlap, and coalesces', () => {
    const mapping = propertiesOf<Mapping>('RelayEventSourceMappingSQSTickQueue');
    expect(mapping).toMatchObject({ BatchSize: 10, MaximumBatchingWindowInSeconds: 0, Enabled: true });
    expect(mapping.ScalingConfig.MaximumConcurrency).toBeGreaterThanOrEqual(2);
    expect(mapping).not.toHaveProperty('FunctionResponseTypes');
  });

  test("is sent with a role that only this stack's schedules can assume, and that can only send", () => {
    expect(propertiesOf<Role>('TickScheduleRole').AssumeRolePolicyDocument).toMatchObject({
      Statement: [
        {
          Principal: { Service: 'scheduler.amazonaws.com' },
          Condition: {
            StringEquals: {
              'aws:SourceAccount': { Ref: 'AWS::AccountId' },
              'aws:SourceArn': { 'Fn::GetAtt': ['TickScheduleGroup', 'Arn'] },
            },
          },
        },
      ],
    });
    expect(allowedTo('TickScheduleRole')).toEqual(['sqs:SendMessage on TickQueue.Arn']);
  });
});

describe.each(CONSUMERS)('the queue of %s', (consumer) => {
  test('gives back only the records that failed (E2)', () => {
    expect(propertiesOf(mappingOf(consumer))).toMatchObject({
      BatchSize: 10,
      Enabled: true,
      FunctionResponseTypes: ['ReportBatchItemFailures'],
      EventSourceArn: { 'Fn::GetAtt': [queueOf(consumer), 'Arn'] },
      FunctionName: { 'Fn::GetAtt': [`${capital(consumer)}LambdaFunction`, 'Arn'] },
    });
  });

  test('gives up after ten receives, and throttling causes none of them (C5)', () => {
    expect(propertiesOf<Queue>(queueOf(consumer)).RedrivePolicy).toEqual({
      deadLetterTargetArn: { 'Fn::GetAtt': [deadLetterQueueOf(consumer), 'Arn'] },
      maxReceiveCount: 10,
    });
    for (const name of FUNCTIONS) expect(lambdaOf(name)).not.toHaveProperty('ReservedConcurrentExecutions');
  });

  test('is the only one whose dead letters its dead-letter queue takes', () => {
    const { QueueName: name } = propertiesOf<Queue>(queueOf(consumer));
    expect(propertiesOf(deadLetterQueueOf(consumer))['RedriveAllowPolicy']).toEqual({
      redrivePermission: 'byQueue',
      sourceQueueArns: [{ 'Fn::Sub': 'arn:${AWS::Partition}:sqs:${AWS::Region}:${AWS::AccountId}:' + name }],
    });
  });
});

test.each([
  ['stock', 5, 0],
  ['history', 2, undefined],
])('%s runs %d times at once, and its batching window is %s', (consumer, concurrency, window) => {
  const mapping = propertiesOf<Mapping>(mappingOf(consumer));
  expect(mapping.ScalingConfig).toEqual({ MaximumConcurrency: concurrency });
  expect(mapping.MaximumBatchingWindowInSeconds).toBe(window);
});

describe('order', () => {
  test.each(['HistoryQueue', 'HistoryDeadLetterQueue'])(
    '%s is FIFO, and its deduplication ids are the relay’s',
    (queue) => {
      const properties = propertiesOf<Queue>(queue);
      expect(properties).toMatchObject({ FifoQueue: true });
      expect(properties.QueueName).toMatch(/^outbox-relay-prod-[a-z-]+\.fifo$/);
      expect(properties).not.toHaveProperty('ContentBasedDeduplication');
    },
  );

  test('is asked of no other queue, and a dead-letter queue is of its queue’s kind', () => {
    const kinds = named('AWS::SQS::Queue').map(([logicalId]) => [
      logicalId,
      propertiesOf<Queue>(logicalId).FifoQueue ?? false,
    ]);
    expect(Object.fromEntries(kinds)).toEqual({
      TickQueue: false,
      StockQueue: false,
      StockDeadLetterQueue: false,
      HistoryQueue: true,
      HistoryDeadLetterQueue: true,
    });
  });
});

test('each queue hides a message for six function timeouts and the batching window (C6)', () => {
  const mappings = named('AWS::Lambda::EventSourceMapping');
  expect(mappings).toHaveLength(3);
  for (const [logicalId] of mappings) {
    const mapping = propertiesOf<Mapping>(logicalId);
    const { VisibilityTimeout: visibility } = propertiesOf<Queue>(mapping.EventSourceArn['Fn::GetAtt'][0]);
    const { Timeout: timeout } = propertiesOf<Lambda>(mapping.FunctionName['Fn::GetAtt'][0]);
    expect(visibility).toBeGreaterThanOrEqual(6 * timeout + (mapping.MaximumBatchingWindowInSeconds ?? 0));
  }
});

test('every queue is encrypted and reached over TLS only', () => {
  const queues = named('AWS::SQS::Queue').map(([logicalId]) => logicalId);
  expect(queues).toHaveLength(5);
  for (const queue of queues) {
    expect(propertiesOf(queue)['SqsManagedSseEnabled']).toBe(true);
    expect(propertiesOf(`${queue}OnlyOverTls`)).toMatchObject({
      Queues: [{ Ref: queue }],
      PolicyDocument: {
        Statement: [
          {
            Effect: 'Deny',
            Principal: '*',
            Action: 'sqs:*',
            Resource: { 'Fn::GetAtt': [queue, 'Arn'] },
            Condition: { Bool: { 'aws:SecureTransport': 'false' } },
          },
        ],
      },
    });
  }
});
