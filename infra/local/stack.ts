// The whole service on this machine, made from the packaged template: what runs here is what deploys.

import type { SQSClient } from '@aws-sdk/client-sqs';
import { setTimeout as sleep } from 'node:timers/promises';
import { startEventSource, type Delivery } from './event-source.ts';
import { mappingsOf } from './mappings.ts';
import { startQueueServer } from './fauxqs.ts';
import type { LocalFunction } from './function.ts';
import { createFunctions, functionAttributes } from './functions.ts';
import { startHttpApi, type ServedRequest } from './http-api.ts';
import { PROJECT } from './package.ts';
import { createQueues, localSqs, queueAttributes, type LocalQueue } from './queue.ts';
import type { InvocationError, LogLine } from './sandbox.ts';
import { startSchedules, timetablesOf } from './schedule.ts';
import { readTemplate, REGION, type Template } from './template.ts';

/** What a stack is started with. */
export interface StackOptions {
  /** Where `npm run package` was run; this project when left out. */
  directory?: string;
  /** The functions' database, already migrated. */
  databaseUrl: string;
  /** Environment variables that differ from the template's, by the function's short name; undefined removes one. */
  environment?: (sqsEndpoint: string) => Record<string, Record<string, string | undefined>>;
  /** Keeps the queues' messages in this folder across runs. */
  queueDirectory?: string;
  /** Port of the HTTP API; any free one when left out. */
  port?: number;
  /** Starts with the schedules paused. */
  schedulesPaused?: boolean;
  /** Called with each line a function writes; without it they are kept in `lines`. */
  onLine?: (line: LogLine) => void;
  /** Called when a function's code or its settings keep it from starting. */
  onInitFailed?: (error: InvocationError) => void;
  onDelivery?: (delivery: Delivery) => void;
  onRequest?: (request: ServedRequest) => void;
  /** Errors that belong to no delivery: a schedule's trigger, a request that ended with 500. */
  onError?: (error: unknown) => void;
}

/** A running stack. */
export interface Stack {
  apiUrl: string;
  /** The SQS endpoint, and a client for it. */
  sqsEndpoint: string;
  sqs: SQSClient;
  /** By short name: `relay`. A sandbox is killed with `functions.relay.busy()[0].kill()`. */
  functions: Record<string, LocalFunction>;
  /** By logical id: `StockQueue`. */
  queues: Record<string, LocalQueue>;
  schedules: { pause(): void; resume(): void };
  /** Every line the functions wrote so far, unless `onLine` takes them. */
  lines: LogLine[];
  /** Stops everything: deliveries in progress get two seconds to end, then every process is killed. */
  stop: () => Promise<void>;
}

const GRACE_MS = 2_000;

/**
 * Starts queues, functions, event source mappings, schedules and HTTP API as the packaged template in `directory`
 * describes them. Throws when there is none, or when it asks for something the local stack does not know.
 */
export async function startStack(options: StackOptions): Promise<Stack> {
  const template = await readTemplate(options.directory ?? PROJECT);
  // Undone last first.
  const cleanup = new AsyncDisposableStack();
  try {
    return { ...(await start(options, template, cleanup)), stop: () => cleanup.disposeAsync() };
  } catch (error) {
    await cleanup.disposeAsync();
    throw error;
  }
}

async function start(
  options: StackOptions,
  template: Template,
  cleanup: AsyncDisposableStack,
): Promise<Omit<Stack, 'stop'>> {
  const { onDelivery = () => {}, onRequest = () => {}, onError = () => {} } = options;
  const { queueDirectory: directory, port = 0, schedulesPaused: paused = false } = options;
  const queueServer = await startQueueServer({
    region: REGION,
    ...(directory !== undefined && { directory }),
  });
  cleanup.defer(queueServer.stop);
  const sqsEndpoint = queueServer.endpoint;
  const known = { ...queueAttributes(template, sqsEndpoint), ...functionAttributes(template) };
  const sqs = cleanup.adopt(localSqs(sqsEndpoint), (client) => client.destroy());
  const queues = await createQueues(sqs, template, known);

  const lines: LogLine[] = [];
  const { databaseUrl, onLine = (line: LogLine) => void lines.push(line) } = options;
  const functions = await createFunctions(template, known, {
    sqsEndpoint,
    databaseUrl,
    environment: options.environment?.(sqsEndpoint) ?? {},
    onLine,
    onInitFailed: options.onInitFailed,
  });
  const all = Object.values(functions);
  cleanup.defer(async () => void (await Promise.all(all.map((called) => called.stop()))));
  const byArn = Object.fromEntries(all.map((called) => [called.arn, called]));

  const mappings = mappingsOf(template, known, queues, byArn);
  const stopPolling = mappings.map((mapping) => startEventSource(sqs, mapping, onDelivery));
  cleanup.defer(() => inTime(stopPolling.map((stop) => stop())));
  const api = await startHttpApi(template, known, byArn, { port, onRequest, onError });
  cleanup.defer(api.stop);
  const schedules = startSchedules(sqs, timetablesOf(template, known, byArn), { paused, onError });
  cleanup.defer(() => schedules.stop());
  return { apiUrl: api.url, sqsEndpoint, sqs, functions, queues, schedules, lines };
}

async function inTime(endings: Promise<void>[]): Promise<void> {
  await Promise.race([Promise.all(endings), sleep(GRACE_MS, undefined, { ref: false })]);
}

/** A queue by its logical id. Throws when the template has none of that name. */
export function queueOf(stack: Stack, id: string): LocalQueue {
  const queue = stack.queues[id];
  if (!queue)
    throw new Error(`The template has no queue ${id}, only ${Object.keys(stack.queues).join(', ')}.`);
  return queue;
}

/** A function by its short name. Throws when the template has none of that name. */
export function functionOf(stack: Stack, name: string): LocalFunction {
  const found = stack.functions[name];
  if (!found)
    throw new Error(`The template has no function ${name}, only ${Object.keys(stack.functions).join(', ')}.`);
  return found;
}
