// An HTTP endpoint that speaks SQS's JSON protocol, keeps SQS's own rules, and fails as a test tells it to.

import { SQSClient, type SQSClientConfig } from '@aws-sdk/client-sqs';
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterwards } from './cleanup.ts';
import { perform, performBatch, type WireInput } from './sqs-actions.ts';
import { ok, type Answer, type Call, type Exchange } from './sqs-answers.ts';
import { createQueue, type Queue, type QueueOptions, type StoredMessage } from './sqs-queue.ts';
import { SqsFault, type WireEntry } from './sqs-rules.ts';

export * from './sqs-answers.ts';
export type { QueueOptions, StoredMessage } from './sqs-queue.ts';

const ACCOUNT = '000000000000';
const UNANSWERED: Answer = ok();

/** Decides each call's answer; undefined: as SQS would. */
export type Script = (call: Call) => Answer | undefined;

/** A running endpoint. */
export interface ScriptedSqs {
  /** `http://127.0.0.1:<port>` */
  endpoint: string;
  /** For a process: endpoint, region and credentials as the SDK reads them. */
  env: Record<string, string>;
  queueUrl(queue: string): string;
  /** A client that makes a single attempt unless told otherwise; destroyed when the test ends. */
  client(config?: SQSClientConfig): SQSClient;
  /** From now on this decides; without an argument everything goes as SQS would. */
  on(script?: Script): void;
  /** The next calls that send are answered by these, one each, before `on` is asked. */
  next(...answers: Answer[]): void;
  /** Every call so far, in order of arrival. */
  calls: Call[];
  /** The calls that send (SendMessage, SendMessageBatch). */
  sends(): Call[];
  /** Every message the queue ever accepted, in order, also those deleted since. */
  stored(queue: string): StoredMessage[];
  /** The same number of milliseconds before each answer, as a network has. */
  latencyMs: number;
  /** Most calls that were open at the same time. */
  mostInFlight: number;
  /** Ends all connections. Done by itself when the test ends. */
  stop(): Promise<void>;
}

interface Endpoint {
  sqs: ScriptedSqs;
  queues: Map<string, Queue>;
  script: Script;
  upcoming: Answer[];
  record: boolean;
  now: () => number;
  inFlight: number;
  received: number;
}

/**
 * Starts an endpoint on a free port of 127.0.0.1.
 * @param queues by name; FIFO when the name ends in `.fifo`. By default one, 'stock'. Others do not exist.
 * @param now milliseconds; the clock of delays, visibility and deduplication.
 * @param record false keeps no calls, for benchmarks.
 */
export async function startScriptedSqs({
  queues = { stock: {} },
  now = Date.now,
  record = true,
}: {
  queues?: Record<string, QueueOptions>;
  now?: () => number;
  record?: boolean;
} = {}): Promise<ScriptedSqs> {
  const server = createServer((request, response) => {
    handle(endpoint, request, response).catch((error: Error) => response.destroy(error));
  });
  // Idle connections stay, so that a reset is always one that a test asked for.
  server.keepAliveTimeout = 0;
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const all = new Map(
    Object.entries(queues).map(([name, options]) => [name, createQueue(name, options, now)]),
  );
  const endpoint: Endpoint = {
    sqs: describe(server, all, {
      on: (script = () => undefined) => void (endpoint.script = script),
      next: (...answers) => void endpoint.upcoming.push(...answers),
    }),
    queues: all,
    script: () => undefined,
    upcoming: [],
    record,
    now,
    inFlight: 0,
    received: 0,
  };
  afterwards(() => endpoint.sqs.stop());
  return endpoint.sqs;
}

function describe(
  server: Server,
  queues: Map<string, Queue>,
  scripting: Pick<ScriptedSqs, 'on' | 'next'>,
): ScriptedSqs {
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
  const calls: Call[] = [];
  let stopped: Promise<void> | undefined;
  return {
    ...scripting,
    endpoint,
    env: {
      AWS_ENDPOINT_URL_SQS: endpoint,
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: credentials.accessKeyId,
      AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
    },
    queueUrl: (queue) => `${endpoint}/${ACCOUNT}/${queue}`,
    client: (config) => {
      const client = new SQSClient({ endpoint, region: 'us-east-1', credentials, maxAttempts: 1, ...config });
      afterwards(() => client.destroy());
      return client;
    },
    calls,
    sends: () => calls.filter(isSend),
    stored: (queue) => queues.get(queue)?.stored ?? [],
    latencyMs: 0,
    mostInFlight: 0,
    stop: () => (stopped ??= close(server)),
  };
}

async function handle(endpoint: Endpoint, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  const body = await readBody(request);
  if (body === undefined) return;
  const call = openCall(endpoint, request, JSON.parse(body) as WireInput);
  response.once('close', () => closeCall(endpoint, call, response));
  const exchange = exchangeFor(endpoint, call, response, gone.signal);
  try {
    if (endpoint.sqs.latencyMs > 0) await sleep(endpoint.sqs.latencyMs);
    await chooseAnswer(endpoint, call)(exchange);
  } catch (error) {
    respondWithError(exchange, response, error);
  }
}

/** Undefined when the caller went away in the middle of it. */
async function readBody(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of request) chunks.push(chunk as Buffer);
  } catch {
    return undefined;
  }
  return Buffer.concat(chunks).toString();
}

function openCall(endpoint: Endpoint, request: IncomingMessage, input: WireInput): Call {
  const action = String(request.headers['x-amz-target']).replace('AmazonSQS.', '');
  const call: Call = {
    number: ++endpoint.received,
    action,
    queue: (input.QueueUrl ?? '').split('/').at(-1) ?? '',
    entries: input.Entries ?? (action === 'SendMessage' ? [{ ...(input as WireEntry), Id: '0' }] : []),
    input,
    at: endpoint.now(),
  };
  if (endpoint.record) endpoint.sqs.calls.push(call);
  endpoint.inFlight++;
  endpoint.sqs.mostInFlight = Math.max(endpoint.sqs.mostInFlight, endpoint.inFlight);
  return call;
}

function closeCall(endpoint: Endpoint, call: Call, response: ServerResponse): void {
  endpoint.inFlight--;
  call.endedAt = endpoint.now();
  call.ended ??= response.writableFinished ? 'answered' : 'abandoned';
  if (call.ended === 'answered') call.status = response.statusCode;
}

function exchangeFor(endpoint: Endpoint, call: Call, response: ServerResponse, gone: AbortSignal): Exchange {
  const { action, input } = call;
  const queue = (): Queue => {
    const found = endpoint.queues.get(call.queue);
    if (!found) throw new SqsFault('QueueDoesNotExist', 'The specified queue does not exist.');
    return found;
  };
  return {
    call,
    gone,
    perform: () => perform(queue(), action, input, gone),
    performEntries: (takes) => performBatch(queue(), action, input, takes),
    respond: (status, body) => respond(response, status, body),
    reset: () => {
      call.ended = 'reset';
      response.socket?.resetAndDestroy();
    },
  };
}

function chooseAnswer({ upcoming, script }: Endpoint, call: Call): Answer {
  const next = isSend(call) ? upcoming.shift() : undefined;
  return next ?? script(call) ?? UNANSWERED;
}

function respond(response: ServerResponse, status: number, body: object | string): void {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  response.writeHead(status, {
    'content-type': 'application/x-amz-json-1.0',
    'content-length': Buffer.byteLength(text),
    'x-amzn-requestid': randomUUID(),
  });
  response.end(text);
}

/** An error that is no SqsFault is a fault of the test's script, and says so to the caller. */
function respondWithError(exchange: Exchange, response: ServerResponse, error: unknown): void {
  const fault =
    error instanceof SqsFault
      ? error
      : new SqsFault('ScriptError', error instanceof Error ? (error.stack ?? error.message) : String(error));
  // The header is how SQS tells the code it had in its older protocol; the SDK shows it as `error.Code`.
  response.setHeader(
    'x-amzn-query-error',
    `${queryCode(fault.code)};${fault.senderFault ? 'Sender' : 'Receiver'}`,
  );
  exchange.respond(fault.status, { __type: `com.amazonaws.sqs#${fault.code}`, message: fault.message });
}

const OLDER_NAMES: Record<string, string> = { QueueDoesNotExist: 'NonExistentQueue' };
const UNPREFIXED =
  /^(?:AccessDenied|RequestThrottled|ThrottlingException|InvalidParameterValue|MissingParameter|InvalidMessageContents|ReceiptHandleIsInvalid|InternalFailure|InternalError|ServiceUnavailable|InvalidAction|ScriptError)$/;

const queryCode = (code: string): string =>
  UNPREFIXED.test(code) ? code : `AWS.SimpleQueueService.${OLDER_NAMES[code] ?? code}`;

const isSend = ({ action }: Call): boolean => action === 'SendMessageBatch' || action === 'SendMessage';

async function close(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeAllConnections();
  await closed;
}
