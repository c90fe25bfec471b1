// One event source mapping: takes batches from a queue, invokes the function, deletes what succeeded.

import { ReceiveMessageCommand, type Message, type SQSClient } from '@aws-sdk/client-sqs';
import type { SQSBatchResponse, SQSRecord } from 'aws-lambda';
import type { LocalFunction } from './function.ts';
import { messageGroups } from './message-groups.ts';
import { deleteMessages, type LocalQueue } from './queue.ts';
import { REGION } from './template.ts';

/** A mapping as the template describes it. */
export interface EventSourceMapping {
  queue: LocalQueue;
  function: LocalFunction;
  batchSize: number;
  windowSeconds: number;
  /** Whether the answer may name the records that failed. */
  partialResponses: boolean;
  /** Invocations at once. */
  maximumConcurrency: number;
}

/** What became of one batch. */
export interface Delivery {
  queue: string;
  function: string;
  records: SQSRecord[];
  /** Message ids that stay in the queue. */
  failed: Set<string>;
  /** Why the whole batch failed, if it did. */
  error?: unknown;
}

const RECEIVE_MOST = 10;
const LONG_POLL_SECONDS = 20;

/**
 * Starts polling. Each batch is one invocation, at most `maximumConcurrency` at once. A batch that throws, or
 * whose answer names no id or an id it did not get, fails as a whole, as on Lambda; what failed is left to the
 * queue's visibility timeout. A message group of a FIFO queue is in one invocation at a time.
 *
 * @returns a function that stops polling and resolves when the deliveries in progress are over.
 */
export function startEventSource(
  sqs: SQSClient,
  mapping: EventSourceMapping,
  onDelivery: (delivery: Delivery) => void,
): () => Promise<void> {
  const stopping = new AbortController();
  const deliveries = new Set<Promise<void>>();
  const groups = messageGroups(mapping.queue);
  const poll = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      const batch = await gather(sqs, mapping, stopping.signal);
      if (batch.length === 0) continue;
      const delivery = groups
        .inTurn(batch, () => deliver(sqs, mapping, batch, onDelivery))
        .finally(() => deliveries.delete(delivery));
      deliveries.add(delivery);
      if (deliveries.size >= mapping.maximumConcurrency) await Promise.race(deliveries);
    }
  };
  const polling = poll();
  return async () => {
    stopping.abort();
    await polling;
    await Promise.all(deliveries);
  };
}

/** A full batch, or what has come when the window closes; the window opens with the first message. */
async function gather(
  sqs: SQSClient,
  mapping: EventSourceMapping,
  stopping: AbortSignal,
): Promise<Message[]> {
  const batch = await receive(sqs, mapping, mapping.batchSize, LONG_POLL_SECONDS, stopping);
  const closesAt = Date.now() + mapping.windowSeconds * 1000;
  while (batch.length > 0 && batch.length < mapping.batchSize && !stopping.aborted) {
    const leftSeconds = Math.floor((closesAt - Date.now()) / 1000);
    if (leftSeconds < 1) break;
    batch.push(...(await receive(sqs, mapping, mapping.batchSize - batch.length, leftSeconds, stopping)));
  }
  return batch;
}

async function receive(
  sqs: SQSClient,
  { queue }: EventSourceMapping,
  most: number,
  WaitTimeSeconds: number,
  stopping: AbortSignal,
): Promise<Message[]> {
  try {
    const { Messages = [] } = await sqs.send(
      new ReceiveMessageCommand({
        QueueUrl: queue.url,
        MaxNumberOfMessages: Math.min(most, RECEIVE_MOST),
        WaitTimeSeconds,
        MessageAttributeNames: ['All'],
        MessageSystemAttributeNames: ['All'],
      }),
      { abortSignal: stopping },
    );
    return Messages;
  } catch (error) {
    if (stopping.aborted) return [];
    throw error;
  }
}

async function deliver(
  sqs: SQSClient,
  mapping: EventSourceMapping,
  batch: Message[],
  onDelivery: (delivery: Delivery) => void,
): Promise<void> {
  const records = batch.map((message) => recordOf(message, mapping.queue));
  const everyId = new Set(records.map((record) => record.messageId));
  const outcome = await mapping.function.invoke({ Records: records }).then(
    (answer) => (mapping.partialResponses ? failuresIn(answer, everyId) : { failed: new Set<string>() }),
    (error: unknown) => ({ failed: everyId, error }),
  );
  const succeeded = records.filter((record) => !outcome.failed.has(record.messageId));
  const handles = succeeded.map(({ receiptHandle }) => receiptHandle);
  await deleteMessages(sqs, mapping.queue.url, handles);
  onDelivery({ queue: mapping.queue.id, function: mapping.function.name, records, ...outcome });
}

/** Lambda's reading of a partial batch response: nothing named is success, one bad name is failure of all. */
function failuresIn(answer: unknown, everyId: Set<string>): { failed: Set<string>; error?: unknown } {
  const failures: unknown = (answer as Partial<SQSBatchResponse> | null)?.batchItemFailures ?? [];
  const failed = Array.isArray(failures)
    ? failures.map((failure: { itemIdentifier?: unknown } | null) => String(failure?.itemIdentifier))
    : [String(failures)];
  const bad = failed.find((id) => !everyId.has(id));
  if (bad === undefined) return { failed: new Set(failed) };
  return { failed: everyId, error: new Error(`batchItemFailures names ${bad}, which was not in the batch`) };
}

function recordOf(message: Message, queue: LocalQueue): SQSRecord {
  const attributes = Object.entries(message.MessageAttributes ?? {}).map(([name, value]) => [
    name,
    {
      ...(value.StringValue !== undefined && { stringValue: value.StringValue }),
      ...(value.BinaryValue && { binaryValue: Buffer.from(value.BinaryValue).toString('base64') }),
      stringListValues: [],
      binaryListValues: [],
      dataType: value.DataType ?? 'String',
    },
  ]);
  return {
    messageId: message.MessageId ?? '',
    receiptHandle: message.ReceiptHandle ?? '',
    body: message.Body ?? '',
    attributes: (message.Attributes ?? {}) as unknown as SQSRecord['attributes'],
    messageAttributes: Object.fromEntries(attributes) as SQSRecord['messageAttributes'],
    md5OfBody: message.MD5OfBody ?? '',
    eventSource: 'aws:sqs',
    eventSourceARN: queue.arn,
    awsRegion: REGION,
  };
}
