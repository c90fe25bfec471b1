// The receiving side of the latency benchmark in a process of its own: what wakes up, publishes and applies.

import { once } from 'node:events';
import { Agent, request as httpRequest, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import type { Message } from '@aws-sdk/client-sqs';
import type { Context, SQSRecord } from 'aws-lambda';
import { consumerConfig } from '../../../functions/consumer/config.ts';
import { consumer } from '../../../functions/consumer/consumer.ts';
import { orderEvents } from '../../../functions/events/order.ts';
import { relayConfig } from '../../../functions/relay/config.ts';
import { partsOf } from '../../../functions/relay/relay.ts';
import type { Sender } from '../../../functions/relay/sender.ts';
import { tick } from '../../../functions/relay/tick.ts';
import { connect } from '../../../functions/shared/database.ts';
import { countdown } from '../../../functions/shared/deadline.ts';
import { bodyOf } from '../contenders/contender.ts';
import { loadGraphile } from '../contenders/graphile.ts';
import { startPgBoss } from '../contenders/pg-boss.ts';
import { publisherTo } from '../contenders/publisher.ts';

/** What the parent sends first. */
export interface LatencyRequest {
  readonly way: 'ours' | 'pgBoss' | 'graphile';
  /** Of ours: relays and consumers are different functions, so they are different processes. */
  readonly part: 'publish' | 'apply';
  readonly databaseUrl: string;
  readonly queueUrl: string;
  readonly tickQueueUrl: string;
}

/** When events, by id, were seen at a place; milliseconds since the epoch. */
export interface Seen {
  readonly kind: 'seen';
  readonly published: [id: string, at: number][];
  readonly applied: [id: string, at: number][];
}

process.on('disconnect', () => process.exit());
// The functions' log lines, which would go to a pipe that nobody reads.
process.stdout.write = () => true;

let published: Seen['published'] = [];
let applied: Seen['applied'] = [];
const now = () => performance.timeOrigin + performance.now();
setInterval(() => {
  if (published.length + applied.length === 0) return;
  process.send?.({ kind: 'seen', published, applied } satisfies Seen);
  published = [];
  applied = [];
}, 100);

const idOf = (body: string) => (JSON.parse(body) as { data: { orderId: string } }).data.orderId;

const agent = new Agent({ keepAlive: true });

/** Asks the emulator without the SDK: AWS polls on its own machines, at nobody's expense here. */
async function ask<T>(action: string, body: object): Promise<T> {
  const headers = { 'content-type': 'application/x-amz-json-1.0', 'x-amz-target': `AmazonSQS.${action}` };
  const asked = httpRequest(process.env['AWS_ENDPOINT_URL'] ?? '', { method: 'POST', agent, headers });
  asked.end(JSON.stringify(body));
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  return JSON.parse((await text(answer)) || '{}') as T;
}

/** An event source mapping: ten messages at once to each of so many invocations, deleted once handled. */
function poll(QueueUrl: string, atOnce: number, handle: (records: SQSRecord[]) => Promise<unknown>): void {
  const underway = new Set<Promise<unknown>>();
  const invoke = async (messages: Message[]): Promise<void> => {
    await handle(messages.map(recordOf));
    const Entries = messages.map(({ ReceiptHandle }, n) => ({ Id: String(n), ReceiptHandle }));
    await ask('DeleteMessageBatch', { QueueUrl, Entries });
  };
  // One poller: several would wake, and find nothing, at our expense.
  const loop = async (): Promise<never> => {
    for (;;) {
      const { Messages = [] } = await ask<{ Messages?: Message[] }>('ReceiveMessage', {
        QueueUrl,
        MaxNumberOfMessages: 10,
        WaitTimeSeconds: 20,
      });
      if (Messages.length === 0) continue;
      const work = invoke(Messages).finally(() => underway.delete(work));
      underway.add(work);
      if (underway.size >= atOnce) await Promise.race(underway);
    }
  };
  void loop();
}

const recordOf = ({ MessageId, Body }: Message) =>
  ({ messageId: MessageId, body: Body, eventSourceARN: 'arn:aws:sqs:us-east-1:0:stock' }) as SQSRecord;

/** Two relays, or five consumers, as the template has them. */
function startOurs(request: LatencyRequest): void {
  if (request.part === 'publish') startRelays(request);
  else startConsumers(request);
}

function startRelays({ databaseUrl, queueUrl, tickQueueUrl }: LatencyRequest): void {
  const config = relayConfig({
    DATABASE_URL: databaseUrl,
    OUTBOX_DESTINATIONS: JSON.stringify({ stock: { kind: 'sqs', queueUrl } }),
  });
  const parts = partsOf(connect(config), config);
  const senders = new Map([...parts.senders].map(([name, sender]) => [name, noting(sender)]));
  poll(tickQueueUrl, 2, () => tick({ ...parts, senders, report: () => undefined }, countdown(20_000)));
}

function startConsumers({ databaseUrl, queueUrl }: LatencyRequest): void {
  const consumerSettings = consumerConfig({
    DATABASE_URL: databaseUrl,
    OUTBOX_QUEUE_URL: queueUrl,
    OUTBOX_POOL_SIZE: '10',
  });
  const handler = consumer({
    name: 'stock',
    events: orderEvents,
    effects: {
      'order.placed': (tx, { data }) =>
        tx.$executeRawUnsafe(
          'UPDATE stock_balance SET available = available - $2 WHERE sku = $1',
          data.sku,
          data.quantity,
        ),
    },
    prisma: connect(consumerSettings),
    config: consumerSettings,
    transactionPer: 'batch',
  });
  const context = { getRemainingTimeInMillis: () => 30_000 } as Context;
  poll(queueUrl, 5, async (Records) => {
    const { batchItemFailures } = await handler({ Records }, context);
    const failed = new Set(batchItemFailures.map(({ itemIdentifier }) => itemIdentifier));
    const at = now();
    for (const { messageId, body } of Records) if (!failed.has(messageId)) applied.push([idOf(body), at]);
  });
}

const noting = (sender: Sender): Sender => ({
  ...sender,
  call: async (messages, signal) => {
    const outcomes = await sender.call(messages, signal);
    const at = now();
    for (const message of messages)
      published.push([idOf((message as { MessageBody: string }).MessageBody), at]);
    return outcomes;
  },
});

type Payload = { orderId: string };

async function startPgBossWay({ databaseUrl, queueUrl }: LatencyRequest): Promise<void> {
  const boss = await startPgBoss(databaseUrl, { useListenNotify: true }, { notify: true });
  const publisher = publisherTo(queueUrl);
  const options = {
    batchSize: 100,
    burstWhenBatchFull: true,
    pollingIntervalSeconds: 0.5,
    localConcurrency: 2,
  };
  await boss.work('outbox', options, async (jobs) => {
    await publisher.all(jobs.map(({ data }) => bodyOf(JSON.stringify(data))));
    const at = now();
    for (const { data } of jobs) published.push([(data as Payload).orderId, at]);
  });
}

async function startGraphileWay({ databaseUrl, queueUrl }: LatencyRequest): Promise<void> {
  const { worker, logger } = await loadGraphile(databaseUrl);
  const publisher = publisherTo(queueUrl);
  const outbox = async (payload: Payload) => {
    await publisher.one(bodyOf(JSON.stringify(payload)));
    published.push([payload.orderId, now()]);
  };
  const preset = {
    worker: {
      connectionString: databaseUrl,
      concurrentJobs: 24,
      maxPoolSize: 20,
      localQueue: { size: 500, refetchDelay: { durationMs: 10 } },
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
    },
  };
  await worker.run({ preset, logger, noHandleSignals: true, taskList: { outbox } });
}

const STARTS: Readonly<Record<LatencyRequest['way'], (request: LatencyRequest) => unknown>> = {
  ours: startOurs,
  pgBoss: startPgBossWay,
  graphile: startGraphileWay,
};
const request = await new Promise<LatencyRequest>((resolve) => void process.once('message', resolve));
await STARTS[request.way](request);
process.send?.({ kind: 'ready' });
