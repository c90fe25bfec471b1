import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { afterwards } from './support/cleanup.ts';
import { templateErrors } from './support/cloudformation.ts';
import { packaged, PACKAGING_TIMEOUT_MS, packageCopy, type Resource } from './support/packaged.ts';

const FUNCTIONS = ['relay', 'prune', 'migrate', 'orders', 'stock', 'history'];
/** Consumers, each with a queue and a dead-letter queue of its own. */
const CONSUMERS = ['stock', 'history'];
const DAY_SECONDS = 86_400;

let resources: Record<string, Resource>;
let output: string;

beforeAll(async () => {
  ({ resources, output } = await packaged());
}, PACKAGING_TIMEOUT_MS);

const capital = (name: string): string => name.charAt(0).toUpperCase() + name.slice(1);

/** A resource's properties, of the type that the caller names. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- an assertion in one place instead of at each call
function propertiesOf<T = Record<string, unknown>>(logicalId: string): T {
  const resource = resources[logicalId];
  if (!resource) throw new Error(`the template has no ${logicalId}`);
  return resource.Properties as T;
}

const named = (type: string): [string, Resource][] =>
  Object.entries(resources).filter(([, resource]) => resource.Type === type);

interface Lambda {
  Timeout: number;
  ReservedConcurrentExecutions?: number;
  Environment: { Variables: Record<string, unknown> };
}
const lambdaOf = (name: string): Lambda => propertiesOf<Lambda>(`${capital(name)}LambdaFunction`);
const variablesOf = (name: string): Record<string, unknown> => lambdaOf(name).Environment.Variables;

interface Queue {
  VisibilityTimeout: number;
  MessageRetentionPeriod: number;
  RedrivePolicy?: { maxReceiveCount: number };
  QueueName: string;
  FifoQueue?: boolean;
}
interface Mapping {
  BatchSize: number;
  MaximumBatchingWindowInSeconds?: number;
  ScalingConfig: { MaximumConcurrency: number };
  EventSourceArn: { 'Fn::GetAtt': [queue: string, 'Arn'] };
  FunctionName: { 'Fn::GetAtt': [lambda: string, 'Arn'] };
}

interface Arn {
  'Fn::GetAtt': [string, 'Arn'];
}
interface Statement {
  Effect: string;
  Action: string | string[];
  Resource: Arn | Arn[];
}
interface Role {
  AssumeRolePolicyDocument: unknown;
  Policies: { PolicyDocument: { Statement: Statement[] } }[];
}
/** What a role may do, as "action on logical id". */
const allowedTo = (role: string): string[] =>
  propertiesOf<Role>(role).Policies.flatMap(({ PolicyDocument }) =>
    PolicyDocument.Statement.flatMap(({ Action, Resource: at }) =>
      [Action]
        .flat()
        .flatMap((action) =>
          [at].flat().map((resource) => `${action} on ${resource['Fn::GetAtt'].join('.')}`),
        ),
    ),
  );

const lifetimeDays = (queue: string): string =>
  String(propertiesOf<Queue>(queue).MessageRetentionPeriod / DAY_SECONDS);

const writeLog = (name: string): string[] =>
  ['logs:CreateLogStream', 'logs:PutLogEvents'].map((action) => `${action} on ${name}LogGroup.Arn`);

const consume = (queue: string): string[] =>
  ['sqs:ReceiveMessage', 'sqs:DeleteMessage', 'sqs:GetQueueAttributes'].map(
    (action) => `${action} on ${queue}.Arn`,
  );

describe('packaging', () => {
  test('needs no AWS variable and warns of nothing', () => {
    expect(output).toContain('Service packaged');
    expect(output).not.toMatch(/warning|deprecat/i);
  });

  test(
    'stops at a configuration error: one relay at a time would throttle ticks',
    async () => {
      const scratch = await mkdtemp(path.join(tmpdir(), 'outbox-package-'));
      afterwards(() => rm(scratch, { recursive: true }));
      const refused = packageCopy(path.join(scratch, 'copy'), '--param=relayConcurrency=1');
      await expect(refused).rejects.toMatchObject({
        stdout: expect.stringMatching(/functions\.relay.*maximumConcurrency': must be >= 2/),
      });
    },
    PACKAGING_TIMEOUT_MS,
  );
});

describe('CloudFormation', () => {
  test('knows every resource, property, word and reference of the template', async () => {
    expect(await templateErrors(resources)).toEqual([]);
  });

  test.each([
    [
      'TickSchedule',
      { FlexibleTimeWindow: { Mode: 'NEVER' } },
      /Mode: "NEVER" is not one of FLEXIBLE, OFF|OFF, FLEX/,
    ],
    ['TickSchedule', { Target: {} }, /^TickSchedule.Target: missing property Arn$/],
    ['TickQueue', { VisibilityTimeOut: 150 }, /^TickQueue: unknown property VisibilityTimeOut$/],
    ['TickQueue', { VisibilityTimeout: '150 s' }, /^TickQueue.VisibilityTimeout: must be integer/],
    ['TickQueue', { KmsMasterKeyId: { Ref: 'NoKey' } }, /refers to NoKey, which is not there$/],
    ['TickQueue', { KmsMasterKeyId: { 'Fn::GetAtt': ['StockQueue', 'Key'] } }, /has no attribute Key$/],
  ])('would refuse %s with %j', async (logicalId, properties, refusal) => {
    const spoilt = {
      ...resources[logicalId],
      Properties: { ...propertiesOf(logicalId), ...properties },
    } as Resource;
    expect(await templateErrors({ ...resources, [logicalId]: spoilt })).toContainEqual(
      expect.stringMatching(refusal),
    );
  });
});

describe('the tick', () => {
  interface Schedule {
    Target: { Input: { 'Fn::Sub': string } };
  }

  test('is six messages a minute, ten seconds apart, sent by the schedule itself', () => {
    const schedule = propertiesOf<Schedule>('TickSchedule');
    expect(schedule).toMatchObject({
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

const queueOf = (consumer: string): string => `${capital(consumer)}Queue`;
const deadLetterQueueOf = (consumer: string): string => `${capital(consumer)}DeadLetterQueue`;
const mappingOf = (consumer: string): string =>
  `${capital(consumer)}EventSourceMappingSQS${queueOf(consumer)}`;

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

  test('gives up after five receives, and throttling causes none of them (C5)', () => {
    expect(propertiesOf<Queue>(queueOf(consumer)).RedrivePolicy).toEqual({
      deadLetterTargetArn: { 'Fn::GetAtt': [deadLetterQueueOf(consumer), 'Arn'] },
      maxReceiveCount: 5,
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
      expect(properties.QueueName).toMatch(/^outbox-relay-dev-[a-z-]+\.fifo$/);
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

describe('variables', () => {
  test('of the relay: its own timeout, a longer lease, and the queues it may send to', () => {
    const { OUTBOX_DESTINATIONS: destinations, ...rest } = variablesOf('relay');
    expect(rest).toEqual({
      DATABASE_URL: expect.any(String),
      OUTBOX_FUNCTION_TIMEOUT_SECONDS: String(lambdaOf('relay').Timeout),
      OUTBOX_LEASE_SECONDS: '30',
    });
    expect(Number(rest['OUTBOX_LEASE_SECONDS'])).toBeGreaterThan(lambdaOf('relay').Timeout);
    const { 'Fn::Sub': json } = destinations as { 'Fn::Sub': string };
    expect(JSON.parse(json)).toEqual({
      stock: { kind: 'sqs', queueUrl: '${StockQueue}' },
      history: { kind: 'sqs', queueUrl: '${HistoryQueue}' },
    });
  });

  test('of the orders: where to nudge', () => {
    expect(variablesOf('orders')).toEqual({
      DATABASE_URL: expect.any(String),
      OUTBOX_TICK_QUEUE_URL: { Ref: 'TickQueue' },
    });
  });

  test.each(CONSUMERS)('of %s: its queues, and their own numbers', (consumer) => {
    expect(variablesOf(consumer)).toEqual({
      DATABASE_URL: expect.any(String),
      OUTBOX_QUEUE_URL: { Ref: queueOf(consumer) },
      OUTBOX_DEAD_LETTER_QUEUE_URL: { Ref: deadLetterQueueOf(consumer) },
      OUTBOX_QUEUE_VISIBILITY_SECONDS: String(propertiesOf<Queue>(queueOf(consumer)).VisibilityTimeout),
      OUTBOX_FUNCTION_TIMEOUT_SECONDS: String(lambdaOf(consumer).Timeout),
    });
  });

  test('of prune: the ledger outlives every place an event may come back from', () => {
    const variables = variablesOf('prune');
    expect(variables).toEqual({
      DATABASE_URL: expect.any(String),
      OUTBOX_RETENTION_HOURS: '24',
      OUTBOX_LEDGER_RETENTION_DAYS: '35',
      OUTBOX_QUEUE_RETENTION_DAYS: lifetimeDays('StockQueue'),
      OUTBOX_DEAD_LETTER_RETENTION_DAYS: lifetimeDays('StockDeadLetterQueue'),
      OUTBOX_REPLAY_HORIZON_DAYS: '7',
    });
    for (const consumer of CONSUMERS) {
      expect(lifetimeDays(queueOf(consumer))).toBe(lifetimeDays('StockQueue'));
      expect(lifetimeDays(deadLetterQueueOf(consumer))).toBe(lifetimeDays('StockDeadLetterQueue'));
    }
    const days = (name: string): number => Number(variables[`OUTBOX_${name}_DAYS`]);
    expect(days('LEDGER_RETENTION')).toBeGreaterThanOrEqual(
      days('QUEUE_RETENTION') + days('DEAD_LETTER_RETENTION') + days('REPLAY_HORIZON'),
    );
  });

  test.each(FUNCTIONS)('of %s: the database by reference, and no credentials of AWS', (name) => {
    const variables = variablesOf(name);
    expect(variables['DATABASE_URL']).toBe('{{resolve:ssm:/outbox-relay/dev/database-url}}');
    expect(Object.keys(variables).filter((key) => key.startsWith('AWS_'))).toEqual([]);
  });
});

test.each(FUNCTIONS)('%s runs on Node 24 on arm64 and keeps its log for a month', (name) => {
  expect(lambdaOf(name)).toMatchObject({
    Runtime: 'nodejs24.x',
    Architectures: ['arm64'],
    Handler: `functions/${name}/handler.handler`,
    Role: { 'Fn::GetAtt': [`${capital(name)}Role`, 'Arn'] },
  });
  expect(propertiesOf(`${capital(name)}LogGroup`)['RetentionInDays']).toBe(30);
});

test('each role may do what its function does and nothing else', () => {
  expect(named('AWS::IAM::Role').map(([logicalId]) => logicalId)).toHaveLength(FUNCTIONS.length + 1);
  expect(allowedTo('RelayRole')).toEqual([
    ...writeLog('Relay'),
    ...consume('TickQueue'),
    'sqs:SendMessage on StockQueue.Arn',
    'sqs:SendMessage on HistoryQueue.Arn',
  ]);
  expect(allowedTo('PruneRole')).toEqual(writeLog('Prune'));
  expect(allowedTo('MigrateRole')).toEqual(writeLog('Migrate'));
  expect(allowedTo('OrdersRole')).toEqual([...writeLog('Orders'), 'sqs:SendMessage on TickQueue.Arn']);
  for (const consumer of CONSUMERS)
    expect(allowedTo(`${capital(consumer)}Role`)).toEqual([
      ...writeLog(capital(consumer)),
      ...consume(queueOf(consumer)),
      `sqs:ChangeMessageVisibility on ${queueOf(consumer)}.Arn`,
      `sqs:SendMessage on ${deadLetterQueueOf(consumer)}.Arn`,
    ]);
});

test('orders are posted, paid and shipped by callers who sign with IAM, and there is no other route', () => {
  const routes = named('AWS::ApiGatewayV2::Route').map(([, route]) => route.Properties);
  expect(routes.map((route) => [route['RouteKey'], route['AuthorizationType']])).toEqual([
    ['POST /orders', 'AWS_IAM'],
    ['POST /orders/{orderId}/payment', 'AWS_IAM'],
    ['POST /orders/{orderId}/shipment', 'AWS_IAM'],
  ]);
});

test('prune runs every hour', () => {
  expect(propertiesOf('PruneEventsRuleSchedule1')).toMatchObject({
    ScheduleExpression: 'rate(1 hour)',
    State: 'ENABLED',
  });
});
