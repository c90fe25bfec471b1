// fauxqs, an SQS emulator, with what it gets wrong put right. Everything that leans on its insides is here.
//
// Still different from SQS: messages do not expire with MessageRetentionPeriod, message attributes and system
// attributes are hardly checked, a FIFO receive returns one message per group, a kept FIFO queue forgets its
// deduplication ids with the process, and a dead-lettered message lacks DeadLetterQueueSourceArn.

import { AsyncLocalStorage } from 'node:async_hooks';
import { buildApp, type BuildAppOptions } from 'fauxqs';

/** A running SQS endpoint on 127.0.0.1. */
export interface QueueServer {
  /** `http://127.0.0.1:<port>` */
  endpoint: string;
  stop: () => Promise<void>;
}

type Stores = NonNullable<BuildAppOptions['stores']>;
type SqsStore = Stores['sqsStore'];
type SqsQueue = NonNullable<ReturnType<SqsStore['getQueue']>>;
type SqsMessage = SqsQueue['messages'][number] & { traceHeader?: string };
type CreateMessage = (...args: [body: string, ...rest: unknown[]]) => SqsMessage;

interface SentEntry {
  MessageBody?: string;
  MessageGroupId?: string;
  MessageSystemAttributes?: { AWSTraceHeader?: { StringValue?: string } };
}

interface SqsRequest {
  QueueUrl?: string;
  Entries?: SentEntry[];
}

interface Received {
  Messages?: { ReceiptHandle: string; Attributes?: Record<string, string> }[];
}

const inside = <T>(file: string): Promise<T> => import(new URL(file, import.meta.resolve('fauxqs')).href);
const { SqsStore: Sqs } = await inside<{ SqsStore: { new (): SqsStore; createMessage: CreateMessage } }>(
  './sqs/sqsStore.js',
);
const { SnsStore: Sns } = await inside<{ SnsStore: new () => Stores['snsStore'] }>('./sns/snsStore.js');
const { S3Store: S3 } = await inside<{ S3Store: new () => Stores['s3Store'] }>('./s3/s3Store.js');
const { PersistenceManager } = await inside<{
  PersistenceManager: new (directory: string) => NonNullable<SqsStore['persistence']>;
}>('./persistence.js');

// 1. Its test for forbidden characters sees halves of surrogate pairs, so it refuses every emoji.
const { INVALID_MESSAGE_BODY_CHAR } = await inside<{ INVALID_MESSAGE_BODY_CHAR: RegExp }>(
  './sqs/sqsTypes.js',
);
const FORBIDDEN = /[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/u;
INVALID_MESSAGE_BODY_CHAR.test = (text) => FORBIDDEN.test(text);

// 2. A standard queue loses a message's MessageGroupId (fair queues), and every queue its AWSTraceHeader. The
// request that sends a message is in this store while fauxqs makes the message from it.
const sending = new AsyncLocalStorage<SentEntry[]>();
const createMessage = Sqs.createMessage;
Sqs.createMessage = (body, ...rest) => {
  const message = createMessage(body, ...rest);
  const entries = sending.getStore() ?? [];
  // Entries become messages in their order, except that refused ones become none.
  const entry = entries.find((sent) => sent.MessageBody === body);
  if (entry !== undefined) entries.splice(0, entries.indexOf(entry) + 1);
  const traceHeader = entry?.MessageSystemAttributes?.AWSTraceHeader?.StringValue;
  if (entry?.MessageGroupId !== undefined) message.messageGroupId ??= entry.MessageGroupId;
  if (traceHeader !== undefined) message.traceHeader = traceHeader;
  return message;
};

/**
 * Starts an SQS endpoint in this process. With `directory`, queues and messages are kept there and are still
 * there next time; without, they end with it.
 */
export async function startQueueServer(options: {
  directory?: string;
  region: string;
}): Promise<QueueServer> {
  const stores: Stores = { sqsStore: new Sqs(), snsStore: new Sns(), s3Store: new S3() };
  // 3. Its queue URLs name a host that resolves nowhere (sqs.<region>.localhost); without a name it uses the
  // request's own. And its own `startFauxqs` listens on every interface: hence buildApp.
  stores.sqsStore.host = '';
  const app = buildApp({ logger: false, defaultRegion: options.region, stores });
  if (options.directory !== undefined) {
    const kept = new PersistenceManager(options.directory);
    // 4. It notes that a message is visible again at once with a receive count of NULL, which its table refuses: the
    // message would be gone until the next start, and its group locked. Not noted, only a restart within the old
    // visibility timeout would still wait for that.
    kept.updateMessageReady = () => {};
    kept.loadSqsAndSns(stores.sqsStore, stores.snsStore);
    stores.sqsStore.persistence = kept;
    for (const queue of stores.sqsStore.allQueues()) queue.persistence = kept;
    app.addHook('onClose', async () => kept.close());
  }
  app.addHook('preHandler', (request, _reply, done) => sending.run(entriesOf(request.body), done));
  app.addHook('preSerialization', async (request, _reply, payload: Received) => {
    returnTraceHeaders(stores.sqsStore, request.body, payload.Messages ?? []);
    return payload;
  });
  const endpoint = await app.listen({ port: 0, host: '127.0.0.1' });
  // Kept queues know the address of an earlier run.
  for (const queue of stores.sqsStore.allQueues())
    Object.assign(queue, { url: new URL(new URL(queue.url).pathname, endpoint).href });
  return { endpoint, stop: () => app.close() };
}

/** A SendMessage request is its own only entry. */
function entriesOf(body: unknown): SentEntry[] {
  const request = (body ?? {}) as SqsRequest & SentEntry;
  return [...(request.Entries ?? [request])];
}

function returnTraceHeaders(
  store: SqsStore,
  body: unknown,
  messages: NonNullable<Received['Messages']>,
): void {
  const queue = store.getQueue((body as SqsRequest).QueueUrl ?? '');
  for (const message of messages) {
    const stored: SqsMessage | undefined = queue?.inflightMessages.get(message.ReceiptHandle)?.message;
    if (stored?.traceHeader !== undefined)
      message.Attributes = { ...message.Attributes, AWSTraceHeader: stored.traceHeader };
  }
}
