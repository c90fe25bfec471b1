// The local stack against what Lambda, SQS and API Gateway do, with toys for functions.

import {
  ChangeMessageVisibilityCommand,
  ReceiveMessageCommand,
  SendMessageCommand,
} from '@aws-sdk/client-sqs';
import type { SQSRecord } from 'aws-lambda';
import { expect, test } from 'vitest';
import type { Delivery } from '../infra/local/event-source.ts';
import { functionOf, queueOf, type Stack } from '../infra/local/stack.ts';
import { begun, packageToys, said, startToys, toyResources, type Instruction } from './local-toys.ts';
import { until } from './support/wait.ts';

const tell = (stack: Stack, ...instructions: Instruction[]) =>
  queueOf(stack, 'ToyQueue').send(instructions.map((instruction) => ({ body: JSON.stringify(instruction) })));

const depthOf = (stack: Stack, id: string) => queueOf(stack, id).depth();

const isEmpty = async (stack: Stack, id = 'ToyQueue') => {
  const { visible, inFlight, delayed } = await depthOf(stack, id);
  return visible + inFlight + delayed === 0;
};

async function startWithDeliveries(changes: Parameters<typeof toyResources>[0] = {}) {
  return startResources(toyResources(changes));
}

async function startResources(resources: Parameters<typeof packageToys>[0]) {
  const deliveries: Delivery[] = [];
  const directory = await packageToys(resources);
  const stack = await startToys(directory, { onDelivery: (delivery) => deliveries.push(delivery) });
  return { stack, deliveries };
}

const isAlive = (pid: number) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

test('a partial response keeps only what it names, and the redrive policy moves that in the end', async () => {
  const { stack, deliveries } = await startWithDeliveries({ queue: { VisibilityTimeout: 3 } });
  await functionOf(stack, 'toy').invoke({});
  await tell(stack, { text: 'good' }, { text: 'bad', fail: true }, { text: 'good too' });
  await until(async () => (await depthOf(stack, 'DeadQueue')).visible === 1, {
    within: 15_000,
    message: 'the bad message is in the dead-letter queue',
  });
  expect(await isEmpty(stack)).toBe(true);
  const [dead] = await queueOf(stack, 'DeadQueue').drain();
  expect(JSON.parse(dead?.Body ?? '')).toEqual({ text: 'bad', fail: true });
  const [, ...texts] = begun(stack).map(({ bodies }) => (bodies as Instruction[]).map(({ text }) => text));
  expect(texts).toEqual([['good', 'bad', 'good too'], ['bad']]);
  expect(deliveries.map(({ failed }) => failed.size)).toEqual([1, 1]);
});

test.each([
  ['an id that was not in the batch', { name: 'somebody else' }],
  ['an empty id', { name: '' }],
  ['a null id', { name: null }],
  ['an exception', { throw: 'no' }],
  ['the end of the process', { exit: true }],
])('the whole batch fails on %s', async (_what, instruction) => {
  const { stack, deliveries } = await startWithDeliveries();
  await tell(stack, { text: 'innocent' }, instruction);
  await until(() => deliveries.length > 0, { within: 15_000, message: 'a delivery' });
  expect(deliveries[0]?.failed.size).toBe(2);
  expect(deliveries[0]?.error).toBeDefined();
  expect(await depthOf(stack, 'ToyQueue')).toEqual({ visible: 0, inFlight: 2, delayed: 0 });
});

test('without ReportBatchItemFailures the answer is not read', async () => {
  const { stack } = await startWithDeliveries({ mapping: { FunctionResponseTypes: [] } });
  await tell(stack, { fail: true });
  await until(() => said(stack).some(({ ends }) => ends), { within: 15_000 });
  await until(() => isEmpty(stack), { message: 'the message is deleted' });
});

test('a batch holds at most its size, and no more invocations run than the maximum', async () => {
  const { stack } = await startWithDeliveries({ mapping: { BatchSize: 3 } });
  await tell(stack, ...Array.from({ length: 20 }, () => ({ waitMs: 30 })));
  await until(() => isEmpty(stack), { within: 15_000 });
  const sizes = begun(stack).map(({ bodies }) => (bodies as unknown[]).length);
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(20);
  expect(Math.max(...sizes)).toBe(3);
  expect(functionOf(stack, 'toy').mostAtOnce()).toBe(2);
});

test('a window collects what comes while it is open', async () => {
  const { stack } = await startWithDeliveries({
    mapping: { BatchSize: 100, MaximumBatchingWindowInSeconds: 2 },
  });
  for (const text of ['a', 'b', 'c']) await tell(stack, { text });
  await until(() => isEmpty(stack), { within: 15_000 });
  expect(begun(stack).map(({ bodies }) => (bodies as unknown[]).length)).toEqual([3]);
});

test('a message wakes the poll in milliseconds, and a warm sandbox takes the next invocation', async () => {
  const { stack, deliveries } = await startWithDeliveries();
  await tell(stack, { text: 'cold' });
  await until(() => deliveries.length === 1, { within: 15_000 });
  const began = performance.now();
  await tell(stack, { text: 'warm' });
  await until(() => deliveries.length === 2);
  expect(performance.now() - began).toBeLessThan(1_000);
  expect(begun(stack).map(({ invocations }) => invocations)).toEqual([1, 2]);
  expect(new Set(said(stack).map(({ pid }) => pid)).size).toBe(1);
});

/** The toys behind a FIFO queue and its FIFO dead-letter queue. */
const fifoResources = (changes: Parameters<typeof toyResources>[0] = {}) => ({
  ...toyResources({ ...changes, queue: { FifoQueue: true, QueueName: 'toys.fifo', ...changes.queue } }),
  DeadQueue: { Type: 'AWS::SQS::Queue', Properties: { FifoQueue: true } },
});

/** Sends one message each; its group is the first word of its text. */
const tellInOrder = (stack: Stack, ...instructions: (Instruction & { text: string })[]) =>
  queueOf(stack, 'ToyQueue').send(
    instructions.map((instruction) => ({
      body: JSON.stringify(instruction),
      groupId: instruction.text.split(' ')[0] ?? '',
      deduplicationId: instruction.text.replaceAll(' ', '-'),
    })),
  );

const textsIn = (line: Record<string, unknown>) => (line['bodies'] as Instruction[]).map(({ text }) => text);
const recordsIn = (line: Record<string, unknown> | undefined) => (line?.['records'] ?? []) as SQSRecord[];

test('a FIFO queue’s records say their group, their deduplication id and their sequence number', async () => {
  const { stack } = await startResources(fifoResources());
  await tellInOrder(stack, { text: 'g1 a' }, { text: 'g2 a' });
  const [line] = await until(() => begun(stack).length > 0 && begun(stack), { within: 15_000 });
  const [first, second] = recordsIn(line);
  expect(first).toMatchObject({
    eventSourceARN: 'arn:aws:sqs:eu-central-1:000000000000:toys.fifo',
    attributes: { MessageGroupId: 'g1', MessageDeduplicationId: 'g1-a', ApproximateReceiveCount: '1' },
  });
  expect(first?.attributes.SequenceNumber).toMatch(/^\d{20}$/);
  expect(Number(second?.attributes.SequenceNumber)).toBeGreaterThan(Number(first?.attributes.SequenceNumber));
});

test('each message group keeps its order and is in one invocation at a time; groups run side by side', async () => {
  const { stack } = await startResources(fifoResources({ mapping: { BatchSize: 2 } }));
  const sent = ['a', 'b', 'c'].flatMap((letter) =>
    ['g1', 'g2', 'g3', 'g4'].map((group) => ({ text: `${group} ${letter}`, waitMs: 100 })),
  );
  await tellInOrder(stack, ...sent);
  await until(() => isEmpty(stack), { within: 20_000, message: 'everything is delivered' });
  expect(functionOf(stack, 'toy').mostAtOnce()).toBe(2);
  for (const group of ['g1', 'g2', 'g3', 'g4']) {
    const own = said(stack)
      .map((line) => ({
        begins: line['begins'] === true,
        text: textsIn(line).find((t) => t?.startsWith(group)),
      }))
      .filter(({ text }) => text !== undefined);
    expect(own).toEqual(
      ['a', 'b', 'c'].flatMap((letter) => [
        { begins: true, text: `${group} ${letter}` },
        { begins: false, text: `${group} ${letter}` },
      ]),
    );
  }
});

test('a message that is visible again before its invocation has ended waits for that end', async () => {
  const { stack, deliveries } = await startResources(fifoResources());
  await functionOf(stack, 'toy').invoke({});
  await tellInOrder(stack, { text: 'g1 a', waitMs: 700, fail: true });
  await until(() => begun(stack).length === 2, { within: 15_000 });
  const [record] = recordsIn(begun(stack)[1]);
  await stack.sqs.send(
    new ChangeMessageVisibilityCommand({
      QueueUrl: queueOf(stack, 'ToyQueue').url,
      ReceiptHandle: record?.receiptHandle,
      VisibilityTimeout: 0,
    }),
  );
  await until(() => deliveries.length === 2, { within: 15_000, message: 'the second delivery' });
  expect(functionOf(stack, 'toy').mostAtOnce()).toBe(1);
  expect(deliveries.map(({ records }) => records[0]?.attributes.ApproximateReceiveCount)).toEqual(['1', '2']);
});

test('a group stops at what failed until that has succeeded or is a dead letter; other groups go on', async () => {
  const { stack } = await startResources(fifoResources({ queue: { VisibilityTimeout: 2 } }));
  await functionOf(stack, 'toy').invoke({});
  await tellInOrder(
    stack,
    { text: 'g1 a', fail: true },
    { text: 'g1 b' },
    { text: 'g1 c' },
    { text: 'g2 a' },
  );
  await until(() => isEmpty(stack), { within: 20_000, message: 'everything is delivered or dead' });
  const texts = begun(stack)
    .flatMap(textsIn)
    .filter((text) => text !== undefined);
  expect(texts.filter((text) => text.startsWith('g1'))).toEqual(['g1 a', 'g1 a', 'g1 b', 'g1 c']);
  expect(texts.indexOf('g2 a')).toBeLessThan(texts.indexOf('g1 b'));
  const dead = await queueOf(stack, 'DeadQueue').drain();
  expect(dead.map(({ Body = '', Attributes }) => [JSON.parse(Body), Attributes?.MessageGroupId])).toEqual([
    [{ text: 'g1 a', fail: true }, 'g1'],
  ]);
});

const inOneGroup = (body: string) => ({ body, groupId: 'g', deduplicationId: body });

test('a deduplication id is taken once, and draining a FIFO queue finds every message of a group', async () => {
  const Plain = { Type: 'AWS::SQS::Queue', Properties: { FifoQueue: true } };
  const stack = await startToys(await packageToys({ Plain }));
  const queue = queueOf(stack, 'Plain');
  await queue.send(['a', 'b', 'a', 'c'].map(inOneGroup));
  expect((await queue.drain()).map(({ Body }) => Body)).toEqual(['a', 'b', 'c']);
  expect(await queue.depth()).toEqual({ visible: 0, inFlight: 0, delayed: 0 });
});

test('a function sees Lambda’s record, context and environment, and nothing of ours', async () => {
  process.env['NOT_FOR_FUNCTIONS'] = 'secret';
  const directory = await packageToys(toyResources(), {
    toy: {
      timeout: 5,
      variables: {
        QUEUE: { Ref: 'ToyQueue' },
        DEAD: { 'Fn::Sub': '{"arn":"${DeadQueue.Arn}","region":"${AWS::Region}"}' },
        JOINED: { 'Fn::Join': ['-', ['a', { Ref: 'ToyQueue' }]] },
        DATABASE_URL: '{{resolve:ssm:/somewhere}}',
      },
    },
  });
  const stack = await startToys(directory, { environment: () => ({ toy: { EXTRA: 'given' } }) });
  await tell(stack, { text: '😀 ￼' });
  const [line] = await until(() => begun(stack).length > 0 && begun(stack), { within: 15_000 });
  const environment = line?.['environment'] as Record<string, string>;
  const { url } = queueOf(stack, 'ToyQueue');
  expect(environment).toMatchObject({
    QUEUE: url,
    JOINED: `a-${url}`,
    DEAD: `{"arn":"${queueOf(stack, 'DeadQueue').arn}","region":"eu-central-1"}`,
    DATABASE_URL: 'postgresql://nowhere/',
    EXTRA: 'given',
    AWS_ENDPOINT_URL_SQS: stack.sqsEndpoint,
    AWS_LAMBDA_FUNCTION_NAME: 'toys-dev-toy',
  });
  expect(environment).not.toHaveProperty('NOT_FOR_FUNCTIONS');
  expect(line?.['left']).toBeLessThanOrEqual(5_000);
  expect(line?.['left']).toBeGreaterThan(4_000);
  expect(line?.['requestId']).toMatch(/^[0-9a-f-]{36}$/);
  const [record] = (line?.['records'] ?? []) as unknown[];
  expect(record).toMatchObject({
    body: '{"text":"😀 ￼"}',
    eventSource: 'aws:sqs',
    eventSourceARN: queueOf(stack, 'ToyQueue').arn,
    attributes: { ApproximateReceiveCount: '1' },
  });
});

test('an invocation that takes too long is killed, and the next one gets a new sandbox', async () => {
  const directory = await packageToys({}, { toy: { timeout: 3 } });
  const stack = await startToys(directory);
  const toy = functionOf(stack, 'toy');
  await expect(toy.invoke({ body: '{"waitMs":60000}' })).rejects.toThrow('toy: timed out after 3 s');
  await toy.invoke({ body: '{}' });
  // A sandbox's lines may come a little after its answer.
  await until(() => begun(stack).length === 2);
  const pids = begun(stack).map(({ pid }) => pid as number);
  expect(new Set(pids).size).toBe(2);
  expect(isAlive(pids[0] ?? 0)).toBe(false);
});

test('a busy sandbox can be found and killed; its messages come back after their visibility timeout', async () => {
  const { stack, deliveries } = await startWithDeliveries({ queue: { VisibilityTimeout: 3 } });
  await functionOf(stack, 'toy').invoke({});
  await tell(stack, { waitMs: 500 });
  const [victim] = await until(() => begun(stack).length > 1 && functionOf(stack, 'toy').busy());
  await victim?.kill();
  expect(isAlive(victim?.pid ?? 0)).toBe(false);
  await until(() => deliveries.length === 2, { within: 15_000, message: 'the second delivery' });
  expect(String(deliveries[0]?.error)).toContain('process ended (SIGKILL)');
  expect(deliveries[1]?.records[0]?.attributes.ApproximateReceiveCount).toBe('2');
  expect(await isEmpty(stack)).toBe(true);
});

test('a handler that does not load says why, and one that wants a callback is refused', async () => {
  const directory = await packageToys(
    {},
    {
      broken: { code: 'throw new RangeError("no configuration")' },
      absent: { handler: 'code/handler.nothing' },
      callback: { handler: 'code/handler.three' },
    },
  );
  const told: string[] = [];
  const stack = await startToys(directory, { onInitFailed: ({ message }) => told.push(message) });
  await expect(functionOf(stack, 'broken').invoke({})).rejects.toThrow(
    'broken: could not start. RangeError: no configuration',
  );
  expect(told).toEqual(['broken: could not start. RangeError: no configuration']);
  await expect(functionOf(stack, 'absent').invoke({})).rejects.toThrow(
    'code/handler.nothing is not a function',
  );
  await expect(functionOf(stack, 'callback').invoke({})).rejects.toThrow('declares a callback parameter');
});

const httpResources = {
  Route: {
    Type: 'AWS::ApiGatewayV2::Route',
    Properties: {
      RouteKey: 'POST /toys/{id}',
      Target: { 'Fn::Join': ['/', ['integrations', { Ref: 'Integration' }]] },
    },
  },
  Integration: {
    Type: 'AWS::ApiGatewayV2::Integration',
    Properties: { IntegrationUri: { 'Fn::GetAtt': ['ToyLambdaFunction', 'Arn'] } },
  },
};

test('the API turns requests into events of format 2.0, and failures into 500', async () => {
  const stack = await startToys(await packageToys(httpResources));
  const post = (path: string, body: string, type = 'application/json') =>
    fetch(`${stack.apiUrl}${path}`, { method: 'POST', headers: { 'content-type': type }, body });

  const answer = await post('/toys/7?a=1&a=2&b=%C3%A4', '{"text":"😀"}');
  expect(answer.status).toBe(201);
  expect(answer.headers.get('x-toy')).toBe('yes');
  expect(await answer.json()).toMatchObject({
    version: '2.0',
    routeKey: 'POST /toys/{id}',
    rawPath: '/toys/7',
    rawQueryString: 'a=1&a=2&b=%C3%A4',
    queryStringParameters: { a: '1,2', b: 'ä' },
    pathParameters: { id: '7' },
    requestContext: { http: { method: 'POST', path: '/toys/7' } },
    body: '{"text":"😀"}',
    isBase64Encoded: false,
  });
  expect(await (await post('/toys/%E2%84%96%207%25', '{}')).json()).toMatchObject({
    rawPath: '/toys/№ 7%',
    pathParameters: { id: '№ 7%' },
    requestContext: { http: { path: '/toys/№ 7%' } },
  });
  expect((await post('/toys/%E2%84', '{}')).status).toBe(400);
  expect((await post('/toys/7', '{"throw":"no"}')).status).toBe(500);
  expect((await post('/other', '{}')).status).toBe(404);
  expect((await fetch(`${stack.apiUrl}/toys/7`)).status).toBe(404);
});

const tickResources = {
  ...toyResources(),
  Tick: {
    Type: 'AWS::Scheduler::Schedule',
    Properties: {
      ScheduleExpression: 'rate(1 minute)',
      Target: {
        Arn: { 'Fn::Sub': 'arn:${AWS::Partition}:scheduler:::aws-sdk:sqs:sendMessageBatch' },
        Input: {
          'Fn::Sub':
            '{"QueueUrl":"${ToyQueue}","Entries":[{"Id":"0","MessageBody":"{}","DelaySeconds":0},{"Id":"1","MessageBody":"{}","DelaySeconds":10}]}',
        },
      },
    },
  },
};

test('the schedule ticks at once and delays the other ticks; paused, it does not', async () => {
  const directory = await packageToys(tickResources);
  const ticking = await startToys(directory);
  await until(() => begun(ticking).length === 1, { within: 15_000, message: 'the first tick' });
  expect((await depthOf(ticking, 'ToyQueue')).delayed).toBe(1);
  const paused = await startToys(directory, { schedulesPaused: true });
  expect(await isEmpty(paused)).toBe(true);
});

async function refused(resources: Parameters<typeof packageToys>[0], message: string): Promise<void> {
  const directory = await packageToys(resources);
  await expect(startToys(directory)).rejects.toThrow(message);
}

test('a schedule, a mapping or a function that the stack does not know is refused by name', async () => {
  const { Tick } = tickResources;
  const cron = { ...Tick, Properties: { ...Tick.Properties, ScheduleExpression: 'cron(0 * * * ? *)' } };
  await refused({ ...tickResources, Tick: cron }, 'Tick: the local stack knows no cron(0 * * * ? *)');
  await refused(
    toyResources({ mapping: { FilterCriteria: {} } }),
    'ToyMapping: the local stack knows no FilterCriteria',
  );
  await refused(toyResources({ mapping: { BatchSize: { 'Fn::If': [] } } }), 'knows no Fn::If');
  await refused(
    fifoResources({ mapping: { MaximumBatchingWindowInSeconds: 1 } }),
    'ToyMapping: a FIFO queue allows no batching window',
  );
  await refused(
    fifoResources({ mapping: { BatchSize: 11 } }),
    'ToyMapping: a FIFO queue allows batches of at most 10',
  );
});

test('the emulator takes emoji, refuses what SQS refuses, and keeps system attributes', async () => {
  const stack = await startToys(await packageToys({ Plain: { Type: 'AWS::SQS::Queue', Properties: {} } }));
  const QueueUrl = queueOf(stack, 'Plain').url;
  const trace = 'Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1';
  const sent = [
    { MessageBody: '😀 𝄞', MessageGroupId: 'tenant-1' },
    {
      MessageBody: 'traced',
      MessageSystemAttributes: { AWSTraceHeader: { DataType: 'String', StringValue: trace } },
    },
  ];
  for (const message of sent) await stack.sqs.send(new SendMessageCommand({ QueueUrl, ...message }));
  await expect(
    stack.sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: 'not \uFFFE' })),
  ).rejects.toThrow('Invalid characters');
  const { Messages = [] } = await stack.sqs.send(
    new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10, MessageSystemAttributeNames: ['All'] }),
  );
  expect(
    Messages.map(({ Body, Attributes }) => [Body, Attributes?.MessageGroupId, Attributes?.AWSTraceHeader]),
  ).toEqual([
    ['😀 𝄞', 'tenant-1', undefined],
    ['traced', undefined, trace],
  ]);
});

test('kept queues hold their messages across a restart', async () => {
  const directory = await packageToys({
    Plain: { Type: 'AWS::SQS::Queue', Properties: { VisibilityTimeout: 5 } },
  });
  const queueDirectory = `${directory}/queues`;
  const first = await startToys(directory, { queueDirectory });
  await queueOf(first, 'Plain').send([{ body: 'kept', attributes: { reason: 'because' } }]);
  await first.stop();
  const second = await startToys(directory, { queueDirectory });
  const [message] = await queueOf(second, 'Plain').drain();
  expect(message).toMatchObject({ Body: 'kept', MessageAttributes: { reason: { StringValue: 'because' } } });
});

const packageKept = (VisibilityTimeout: number) =>
  packageToys({ Plain: { Type: 'AWS::SQS::Queue', Properties: { FifoQueue: true, VisibilityTimeout } } });

test('a kept FIFO queue is brought up to date, keeps its order, and gives back at once what is made visible', async () => {
  const directory = await packageKept(60);
  const queueDirectory = `${directory}/queues`;
  const first = await startToys(directory, { queueDirectory });
  await queueOf(first, 'Plain').send(['a', 'b'].map(inOneGroup));
  const QueueUrl = queueOf(first, 'Plain').url;
  const { Messages: [received] = [] } = await first.sqs.send(new ReceiveMessageCommand({ QueueUrl }));
  const visible = { QueueUrl, ReceiptHandle: received?.ReceiptHandle, VisibilityTimeout: 0 };
  await first.sqs.send(new ChangeMessageVisibilityCommand(visible));
  expect(await queueOf(first, 'Plain').depth()).toMatchObject({ visible: 2, inFlight: 0 });
  expect((await queueOf(first, 'Plain').drain()).map(({ Body }) => Body)).toEqual(['a', 'b']);
  await queueOf(first, 'Plain').send(['c', 'd', 'e'].map(inOneGroup));
  await first.stop();
  const second = await startToys(await packageKept(30), { queueDirectory });
  expect((await queueOf(second, 'Plain').drain()).map(({ Body }) => Body)).toEqual(['c', 'd', 'e']);
});

test('a reloaded function runs its new code; what was in progress ends with the old', async () => {
  const { stack, deliveries } = await startWithDeliveries();
  await tell(stack, { waitMs: 300 });
  await until(() => begun(stack).length === 1, { within: 15_000 });
  await functionOf(stack, 'toy').reload();
  await until(() => deliveries.length === 1);
  expect(deliveries[0]?.error).toBeUndefined();
  await tell(stack, {});
  await until(() => deliveries.length === 2, { within: 15_000 });
  expect(new Set(said(stack).map(({ pid }) => pid)).size).toBe(2);
});

test('stop leaves no process, not even a busy one, and can be called twice', async () => {
  const { stack } = await startWithDeliveries();
  await tell(stack, { waitMs: 60_000 });
  await until(() => begun(stack).length === 1, { within: 15_000 });
  const pid = Number(begun(stack)[0]?.['pid']);
  await stack.stop();
  await stack.stop();
  expect(isAlive(pid)).toBe(false);
});
