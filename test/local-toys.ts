// A packaged service of toys for the local stack's own tests: handlers that do what a message tells them.

import { zipSync } from 'fflate';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startStack, type Stack, type StackOptions } from '../infra/local/stack.ts';
import { afterwards } from './support/cleanup.ts';

/** A record's body is one of these, as JSON. */
export interface Instruction {
  /** Reported as failed. */
  fail?: boolean;
  /** The answer names this instead. */
  name?: unknown;
  throw?: string;
  /** Keeps the invocation busy for so long. */
  waitMs?: number;
  exit?: boolean;
  text?: string;
}

const TOY = `
  let invocations = 0;
  const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const say = (fields) => process.stdout.write(JSON.stringify({ event: 'toy', pid: process.pid, ...fields }) + '\\n');
  export async function handler(event, context) {
    invocations++;
    const records = event.Records ?? [{ body: event.body ?? '{}', messageId: 'none' }];
    const bodies = records.map(({ body }) => JSON.parse(body));
    say({ begins: true, invocations, bodies, records: event.Records ?? null, left: context.getRemainingTimeInMillis(),
          requestId: context.awsRequestId, environment: { ...process.env } });
    for (const body of bodies) {
      if (body.waitMs) await sleep(body.waitMs);
      if (body.exit) process.exit(3);
      if (body.throw) throw new TypeError(body.throw);
    }
    say({ ends: true, bodies });
    if (!event.Records) return { statusCode: 201, headers: { 'x-toy': 'yes' }, body: JSON.stringify(event) };
    const failed = records.filter((_, at) => bodies[at].fail).map(({ messageId }) => messageId);
    const named = bodies.filter((body) => 'name' in body).map(({ name }) => name);
    return { batchItemFailures: [...failed, ...named].map((itemIdentifier) => ({ itemIdentifier })) };
  }
  export const three = (event, context, callback) => callback(null);
`;

type Resources = Record<string, { Type: string; Properties: Record<string, unknown> }>;

/** A function's resource, its code the toy's unless other code is given. */
export interface Toy {
  code?: string;
  handler?: string;
  timeout?: number;
  variables?: Record<string, unknown>;
}

/** A queue `ToyQueue`, its dead-letter queue, and a mapping to the function `toy`, with what a test changes. */
export function toyResources(changes: { queue?: object; mapping?: object } = {}): Resources {
  return {
    DeadQueue: { Type: 'AWS::SQS::Queue', Properties: {} },
    ToyQueue: {
      Type: 'AWS::SQS::Queue',
      Properties: {
        QueueName: 'toys',
        // Longer than a cold start on a busy machine.
        VisibilityTimeout: 30,
        RedrivePolicy: { deadLetterTargetArn: { 'Fn::GetAtt': ['DeadQueue', 'Arn'] }, maxReceiveCount: 2 },
        ...changes.queue,
      },
    },
    ToyMapping: {
      Type: 'AWS::Lambda::EventSourceMapping',
      Properties: {
        BatchSize: 10,
        MaximumBatchingWindowInSeconds: 0,
        FunctionResponseTypes: ['ReportBatchItemFailures'],
        EventSourceArn: { 'Fn::GetAtt': ['ToyQueue', 'Arn'] },
        FunctionName: { 'Fn::GetAtt': ['ToyLambdaFunction', 'Arn'] },
        ScalingConfig: { MaximumConcurrency: 2 },
        ...changes.mapping,
      },
    },
  };
}

/** Writes the packager's files and zips for such functions into a folder that ends with the test. */
export async function packageToys(
  resources: Resources,
  toys: Record<string, Toy> = { toy: {} },
): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'outbox-toys-'));
  afterwards(() => rm(directory, { recursive: true, force: true }));
  const packaged = join(directory, '.serverless');
  await mkdir(packaged);
  const all: Resources = { ...resources };
  const functions: Record<string, object> = {};
  for (const [name, { code = TOY, handler, timeout = 5, variables = {} }] of Object.entries(toys)) {
    await writeFile(join(directory, `${name}.zip`), zipSync({ 'code/handler.mjs': Buffer.from(code) }));
    functions[name] = { name: `toys-dev-${name}`, package: { artifact: `${name}.zip` } };
    all[`${name[0]?.toUpperCase()}${name.slice(1)}LambdaFunction`] = {
      Type: 'AWS::Lambda::Function',
      Properties: {
        FunctionName: `toys-dev-${name}`,
        Handler: handler ?? 'code/handler.handler',
        Timeout: timeout,
        Environment: { Variables: variables },
      },
    };
  }
  const state = { service: { service: 'toys', provider: { stage: 'dev' }, functions } };
  await writeFile(join(packaged, 'serverless-state.json'), JSON.stringify(state));
  const template = JSON.stringify({ Resources: all });
  await writeFile(join(packaged, 'cloudformation-template-update-stack.json'), template);
  return directory;
}

/** Starts the toys' stack; it stops with the test. */
export async function startToys(directory: string, options: Partial<StackOptions> = {}): Promise<Stack> {
  const stack = await startStack({ directory, databaseUrl: 'postgresql://nowhere/', ...options });
  afterwards(stack.stop);
  return stack;
}

/** What the toys said, oldest first. */
export const said = (stack: Stack): Record<string, unknown>[] =>
  stack.lines.flatMap(({ json }) => (json?.['event'] === 'toy' ? [json] : []));

/** What they said at the beginning of each invocation. */
export const begun = (stack: Stack): Record<string, unknown>[] =>
  said(stack).filter((line) => line['begins']);
