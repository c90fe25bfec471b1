// The doctor, on the packaged template as it is and with contradictions planted in it.

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { doctor, templateNotes, templateProblems } from '../infra/doctor.ts';
import type { Template } from '../infra/template/document.ts';
import { afterwards } from './support/cleanup.ts';
import { packaged, PACKAGING_TIMEOUT_MS } from './support/packaged.ts';
import { startProcess } from './support/process.ts';

let directory: string;
let template: Template;

beforeAll(async () => {
  const found = await packaged();
  ({ directory } = found);
  template = { Resources: found.resources };
}, PACKAGING_TIMEOUT_MS);

const templateFile = () => path.join(directory, '.serverless/cloudformation-template-update-stack.json');

/** The template with some properties of a resource replaced; undefined takes one away. */
function planted(id: string, properties: Record<string, unknown>): Template {
  const resource = template.Resources[id];
  if (!resource) throw new Error(`the template has no ${id}`);
  const changed = { ...resource, Properties: { ...resource.Properties, ...properties } };
  return { Resources: { ...template.Resources, [id]: changed } };
}

function plantedVariables(id: string, variables: Record<string, unknown>): Template {
  const { Environment: environment } = template.Resources[id]?.Properties ?? {};
  const { Variables: given } = environment as { Variables: Record<string, unknown> };
  const merged = Object.entries({ ...given, ...variables }).filter(([, value]) => value !== undefined);
  return planted(id, { Environment: { Variables: Object.fromEntries(merged) } });
}

test('the template that ships has no contradiction', () => {
  expect(templateProblems(template)).toEqual([]);
  expect(templateProblems(template, 500)).toEqual([]);
});

const mappingOf = (queue: string) =>
  Object.keys(template.Resources).find((id) => id.includes(`EventSourceMappingSQS${queue}`)) ?? queue;

test.each<[string, () => Template, RegExp]>([
  [
    'a lease that ends while the relay runs',
    () => plantedVariables('RelayLambdaFunction', { OUTBOX_LEASE_SECONDS: '20' }),
    /^relay: OUTBOX_LEASE_SECONDS: 20 .*OUTBOX_FUNCTION_TIMEOUT_SECONDS \(25\)/,
  ],
  [
    'a relay that is told another timeout than it has',
    () => planted('RelayLambdaFunction', { Timeout: 20 }),
    /^relay: OUTBOX_FUNCTION_TIMEOUT_SECONDS is 25 and the function's timeout is 20/,
  ],
  [
    'a queue whose messages come back while they are applied',
    () => planted('StockQueue', { VisibilityTimeout: 60 }),
    /^StockQueue: VisibilityTimeout is 60, below 180 .*stock \(30\)/,
  ],
  [
    'a consumer that believes in another visibility',
    () => planted('HistoryQueue', { VisibilityTimeout: 600 }),
    /^history: OUTBOX_QUEUE_VISIBILITY_SECONDS is 185 and VisibilityTimeout of HistoryQueue is 600/,
  ],
  [
    'ticks that come back while the relay runs',
    () => planted('TickQueue', { VisibilityTimeout: undefined }),
    /^TickQueue: VisibilityTimeout is 30, below 150/,
  ],
  [
    'a ledger that forgets too early',
    () => plantedVariables('PruneLambdaFunction', { OUTBOX_LEDGER_RETENTION_DAYS: '20' }),
    /^prune: OUTBOX_LEDGER_RETENTION_DAYS: 20 is below 35/,
  ],
  [
    'a queue that keeps longer than prune believes',
    () =>
      plantedVariables('PruneLambdaFunction', {
        OUTBOX_QUEUE_RETENTION_DAYS: '4',
        OUTBOX_LEDGER_RETENTION_DAYS: '25',
      }),
    /^prune: OUTBOX_QUEUE_RETENTION_DAYS is 4 and StockQueue keeps messages for 14 days/,
  ],
  [
    'a dead-letter queue that loses what the queue still had',
    () => planted('StockDeadLetterQueue', { MessageRetentionPeriod: 345_600 }),
    /^StockDeadLetterQueue: MessageRetentionPeriod is 345600, below the 1209600 of StockQueue/,
  ],
  [
    'a consumer whose failures would be deleted',
    () => planted(mappingOf('StockQueue'), { FunctionResponseTypes: undefined }),
    /ReportBatchItemFailures; the failed records of stock would be deleted/,
  ],
  [
    'a batch that Lambda refuses without a window',
    () => planted(mappingOf('StockQueue'), { BatchSize: 100 }),
    /BatchSize is 100 with a window of 0 s/,
  ],
  [
    'a single consumer at once',
    () => planted(mappingOf('HistoryQueue'), { ScalingConfig: { MaximumConcurrency: 1 } }),
    /MaximumConcurrency is 1, below 2/,
  ],
  [
    'more records at once than connections',
    () => plantedVariables('StockLambdaFunction', { OUTBOX_POOL_SIZE: '2' }),
    /^stock: OUTBOX_CONCURRENCY: 4 is above OUTBOX_POOL_SIZE \(2\)/,
  ],
  [
    'two ways to the database',
    () => plantedVariables('StockLambdaFunction', { DATABASE_SECRET_ARN: { Ref: 'Secret' } }),
    /^stock: DATABASE_URL: is set, and so is DATABASE_SECRET_ARN/,
  ],
  [
    'a misspelt setting',
    () => plantedVariables('OrdersLambdaFunction', { OUTBOX_TICK_QUEUE: 'x' }),
    /^orders: OUTBOX_TICK_QUEUE: no such setting/,
  ],
])('%s is found', (_, plant, message) => {
  const problems = templateProblems(plant());
  expect(problems).toContainEqual(expect.stringMatching(message));
});

test('pools that do not fit into the server are added up', () => {
  expect(templateProblems(template, 50)).toEqual([
    expect.stringMatching(/^max_connections is 50, below \d+ = .*relay 5 × 2.*stock 5 × 5.*history 5 × 2/),
  ]);
});

test('a function that callers start counts as one sandbox, and is named, until its concurrency is reserved', () => {
  expect(templateNotes(template)).toEqual([]);
  expect(templateNotes(template, 500)).toEqual([
    expect.stringMatching(/^orders: counted as one sandbox, .*HTTP/),
  ]);
  const reserved = planted('OrdersLambdaFunction', { ReservedConcurrentExecutions: 20 });
  expect(templateNotes(reserved, 500)).toEqual([]);
  expect(templateProblems(reserved, 50)).toEqual([expect.stringContaining('orders 5 × 20')]);
});

test('a function with settings of the outbox and no checks is named, one without them is not', () => {
  const lambda = { Type: 'AWS::Lambda::Function', Properties: { Environment: { Variables: {} } } };
  const other = { ...lambda, Properties: { Environment: { Variables: { OUTBOX_TICK_QUEUE_URL: 'x' } } } };
  const { Resources } = template;
  expect(
    templateNotes({
      Resources: { ...Resources, CheckoutLambdaFunction: other, ToStringLambdaFunction: lambda },
    }),
  ).toEqual([expect.stringMatching(/^checkout: not checked/)]);
});

const DESTINATIONS = '{"stock":{"kind":"sqs","queueUrl":"${Url}"}}';

test.each([
  ['Fn::Join', { 'Fn::Join': ['', ['{"stock":{"kind":"sqs","queueUrl":"', { Ref: 'StockQueue' }, '"}}']] }],
  ['Fn::Sub with names of its own', { 'Fn::Sub': [DESTINATIONS, { Url: { Ref: 'StockQueue' } }] }],
  [
    'Fn::If',
    {
      'Fn::If': ['X', { Ref: 'AWS::NoValue' }, { 'Fn::Sub': DESTINATIONS.replace('{Url}', '{StockQueue}') }],
    },
  ],
])('destinations are read through %s', (_, value) => {
  expect(templateProblems(plantedVariables('RelayLambdaFunction', { OUTBOX_DESTINATIONS: value }))).toEqual(
    [],
  );
  const bad = JSON.parse(JSON.stringify(value).replace('sqs', 'smoke-signal')) as unknown;
  const problems = templateProblems(plantedVariables('RelayLambdaFunction', { OUTBOX_DESTINATIONS: bad }));
  expect(problems).toContainEqual(expect.stringMatching(/^relay: OUTBOX_DESTINATIONS/));
});

test.each(['{}', 'null', '[]', '{"Resources":{"StockQueue":null}}'])(
  'what is no template is refused: %s',
  async (json) => {
    const folder = await mkdtemp(path.join(tmpdir(), 'outbox-doctor-'));
    afterwards(() => rm(folder, { recursive: true }));
    const file = path.join(folder, 'template.json');
    await writeFile(file, json);
    await expect(doctor(['--template', file], {})).rejects.toThrow(
      /template.json: expected the template that `serverless package` writes/,
    );
  },
);

test('variables of a live function are checked as its own cold start would', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'outbox-doctor-'));
  afterwards(() => rm(folder, { recursive: true }));
  const file = path.join(folder, 'relay.json');
  const Variables = {
    DATABASE_URL: 'postgresql://a:s3cret@db/c',
    OUTBOX_LEASE_SECONDS: '5',
    OUTBOX_DESTINATIONS: '{}',
  };
  await writeFile(file, JSON.stringify({ FunctionName: 'relay', Environment: { Variables } }));
  const { problems } = await doctor(['--function', 'relay', '--variables', file], {});
  expect(problems).toContainEqual(expect.stringContaining('OUTBOX_DESTINATIONS'));
  expect(problems.join()).not.toContain('s3cret');
  expect(await doctor(['--function', 'relay', '--env'], Variables)).toEqual({ problems, notes: [] });
  await expect(doctor(['--env'], Variables)).rejects.toThrow('--function');
  await expect(doctor(['--function', 'realy', '--env'], Variables)).rejects.toThrow('expected one of relay');
  const gauge = await doctor(['--function', 'gauge', '--env'], { OUTBOX_LEASE: '5', DATABASE_URL: 'x' });
  expect(gauge.problems).toHaveLength(2);
  await expect(doctor(['--template', '/nowhere.json'], {})).rejects.toThrow('serverless package');
});

test('the command exits with 1 when something is wrong, and with 0 when nothing is', async () => {
  const cli = new URL('../infra/outbox.ts', import.meta.url);
  const healthy = startProcess(cli, { args: ['doctor', '--template', templateFile()] });
  expect(await healthy.exited).toMatchObject({ code: 0 });
  const ill = startProcess(cli, {
    args: ['doctor', '--template', templateFile(), '--max-connections', '10'],
  });
  expect(await ill.exited).toMatchObject({ code: 1 });
});
