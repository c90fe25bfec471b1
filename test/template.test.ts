// The functions of the packaged template: their variables, roles, routes and schedules.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { afterwards } from './support/cleanup.ts';
import { NAMESPACE } from '../infra/template/metrics.ts';
import { packaged, PACKAGING_TIMEOUT_MS, packageCopy } from './support/packaged.ts';
import {
  capital,
  CONSUMERS,
  deadLetterQueueOf,
  FUNCTIONS,
  lookups,
  queueOf,
  type Queue,
} from './support/template.ts';

const { resources, output } = await packaged();
const { propertiesOf, lambdaOf, variablesOf, named, allowedTo } = lookups(resources);

const DAY_SECONDS = 86_400;
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

describe('variables', () => {
  /** Of every function: the database, and where metrics go. */
  const shared = {
    DATABASE_URL: '{{resolve:ssm:/outbox-relay/prod/database-url}}',
    POWERTOOLS_METRICS_NAMESPACE: NAMESPACE,
    POWERTOOLS_SERVICE_NAME: 'outbox-relay-prod',
  };

  test('of the relay: its own timeout, a longer lease, and the queues it may send to', () => {
    const { OUTBOX_DESTINATIONS: destinations, ...rest } = variablesOf('relay');
    expect(rest).toEqual({
      ...shared,
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
      ...shared,
      OUTBOX_TICK_QUEUE_URL: { Ref: 'TickQueue' },
    });
  });

  test.each(CONSUMERS)('of %s: its queues, and their own numbers', (consumer) => {
    expect(variablesOf(consumer)).toEqual({
      ...shared,
      OUTBOX_QUEUE_URL: { Ref: queueOf(consumer) },
      OUTBOX_DEAD_LETTER_QUEUE_URL: { Ref: deadLetterQueueOf(consumer) },
      OUTBOX_QUEUE_VISIBILITY_SECONDS: String(propertiesOf<Queue>(queueOf(consumer)).VisibilityTimeout),
      OUTBOX_FUNCTION_TIMEOUT_SECONDS: String(lambdaOf(consumer).Timeout),
    });
  });

  test('of prune: the ledger outlives every place an event may come back from', () => {
    const variables = variablesOf('prune');
    expect(variables).toEqual({
      ...shared,
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

  test.each(['gauge', 'migrate'])('of %s: nothing else', (name) => {
    expect(variablesOf(name)).toEqual(shared);
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
  expect(allowedTo('GaugeRole')).toEqual(writeLog('Gauge'));
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

test.each([
  ['Prune', 'rate(1 hour)'],
  ['Gauge', 'rate(1 minute)'],
])('%s runs at %s', (name, rate) => {
  expect(propertiesOf(`${name}EventsRuleSchedule1`)).toMatchObject({
    ScheduleExpression: rate,
    State: 'ENABLED',
    Targets: [{ Arn: { 'Fn::GetAtt': [`${name}LambdaFunction`, 'Arn'] } }],
  });
});
