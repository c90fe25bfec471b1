// The calls of SQS's JSON protocol that relay, consumer and their tests make.

import { setTimeout as sleep } from 'node:timers/promises';
import { receiptHandleOf, type Queue, type StoredMessage } from './sqs-queue.ts';
import {
  checkBatch,
  checkCallSize,
  md5,
  md5OfAttributes,
  SqsFault,
  type WireAttribute,
  type WireEntry,
} from './sqs-rules.ts';

const LONG_POLL_EVERY_MS = 10;

/** The body of a call, as far as one of the actions reads it. */
export interface WireInput {
  QueueUrl?: string;
  Entries?: WireEntry[];
  MaxNumberOfMessages?: number;
  WaitTimeSeconds?: number;
  VisibilityTimeout?: number;
  ReceiptHandle?: string;
  AttributeNames?: string[];
  MessageAttributeNames?: string[];
  MessageSystemAttributeNames?: string[];
}

/** One entry of `Failed`. */
export interface FailedEntry {
  Id: string;
  Code: string;
  SenderFault: boolean;
  Message?: string;
}

/** The answer to a batch. */
export interface BatchResult {
  Successful: ({ Id: string } & Record<string, unknown>)[];
  Failed: FailedEntry[];
}

/** A batch call, of which only the entries that `takes` accepts are carried out. Throws SqsFault as a whole. */
export function performBatch(
  queue: Queue,
  action: string,
  input: WireInput,
  takes: (id: string) => boolean = () => true,
): BatchResult {
  const perform = batchActions[action];
  if (!perform) throw new Error(`${action} has no entries to answer one by one`);
  const entries = input.Entries ?? [];
  checkBatch(entries);
  if (action === 'SendMessageBatch') checkCallSize(entries);
  const result: BatchResult = { Successful: [], Failed: [] };
  for (const entry of entries.filter(({ Id }) => takes(Id))) {
    try {
      result.Successful.push({ Id: entry.Id, ...perform(queue, entry) });
    } catch (fault) {
      if (!(fault instanceof SqsFault)) throw fault;
      const { code, senderFault, message } = fault;
      result.Failed.push({ Id: entry.Id, Code: code, SenderFault: senderFault, Message: message });
    }
  }
  return result;
}

/** Carries a call out as SQS would, and returns the answer's body. Throws SqsFault. */
export async function perform(
  queue: Queue,
  action: string,
  input: WireInput,
  gone: AbortSignal,
): Promise<object> {
  if (action in batchActions) return performBatch(queue, action, input);
  const single = singleActions[action];
  if (!single) throw new SqsFault('InvalidAction', `The action ${action} is not valid for this endpoint.`);
  return single(queue, input, gone);
}

type BatchEntry = WireEntry & WireInput;

const batchActions: Record<string, (queue: Queue, entry: BatchEntry) => object> = {
  SendMessageBatch: (queue, entry) => queue.send(entry),
  DeleteMessageBatch: (queue, entry) => removeMessage(queue, entry),
  ChangeMessageVisibilityBatch: (queue, entry) => changeVisibility(queue, entry),
};

const singleActions: Record<
  string,
  (queue: Queue, input: WireInput, gone: AbortSignal) => object | Promise<object>
> = {
  SendMessage: (queue, input) => sendMessage(queue, input as WireEntry),
  ReceiveMessage: receiveMessages,
  DeleteMessage: removeMessage,
  ChangeMessageVisibility: changeVisibility,
  GetQueueAttributes: getAttributes,
};

function sendMessage(queue: Queue, entry: WireEntry): object {
  if (!entry.MessageBody)
    throw new SqsFault('MissingParameter', 'The request must contain the parameter MessageBody.');
  return queue.send(entry);
}

function removeMessage(queue: Queue, { ReceiptHandle = '' }: WireInput): object {
  queue.remove(ReceiptHandle);
  return {};
}

function changeVisibility(queue: Queue, { ReceiptHandle = '', VisibilityTimeout = -1 }: WireInput): object {
  queue.changeVisibility(ReceiptHandle, VisibilityTimeout);
  return {};
}

async function receiveMessages(queue: Queue, input: WireInput, gone: AbortSignal): Promise<object> {
  const { MaxNumberOfMessages: limit = 1, WaitTimeSeconds = 0, VisibilityTimeout } = input;
  if (!Number.isInteger(limit) || limit < 1 || limit > 10)
    throw new SqsFault(
      'InvalidParameterValue',
      `Value ${limit} for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided.`,
    );
  const deadline = performance.now() + WaitTimeSeconds * 1_000;
  let messages = queue.receive(limit, VisibilityTimeout);
  while (messages.length === 0 && performance.now() < deadline && !gone.aborted) {
    await sleep(LONG_POLL_EVERY_MS);
    if (!gone.aborted) messages = queue.receive(limit, VisibilityTimeout);
  }
  // SQS leaves the key out when there is nothing.
  return messages.length > 0 ? { Messages: messages.map((message) => wireMessage(message, input)) } : {};
}

function wireMessage(message: StoredMessage, input: WireInput): object {
  const systemNames = [...(input.MessageSystemAttributeNames ?? []), ...(input.AttributeNames ?? [])];
  const attributes = pick(message.attributes, input.MessageAttributeNames ?? []);
  const hasAttributes = Object.keys(attributes).length > 0;
  return {
    MessageId: message.messageId,
    ReceiptHandle: receiptHandleOf(message),
    Body: message.body,
    MD5OfBody: md5(message.body),
    ...(systemNames.length > 0 && { Attributes: pick(systemAttributes(message), systemNames) }),
    ...(hasAttributes && {
      MessageAttributes: attributes,
      MD5OfMessageAttributes: md5OfAttributes(attributes),
    }),
  };
}

function systemAttributes(message: StoredMessage): Record<string, string> {
  const all = {
    SenderId: '000000000000',
    SentTimestamp: String(Math.trunc(message.sentAt)),
    ApproximateReceiveCount: String(message.receiveCount),
    ApproximateFirstReceiveTimestamp: String(Math.trunc(message.firstReceivedAt ?? 0)),
    MessageGroupId: message.groupId,
    MessageDeduplicationId: message.deduplicationId,
    SequenceNumber: message.sequenceNumber,
    AWSTraceHeader: message.systemAttributes['AWSTraceHeader']?.StringValue,
  };
  return Object.fromEntries(
    Object.entries(all).filter((pair): pair is [string, string] => pair[1] !== undefined),
  );
}

/** `All`, a name, or a prefix as in `order.*`. */
function pick<T extends string | WireAttribute>(all: Record<string, T>, names: string[]): Record<string, T> {
  const wanted = (key: string): boolean =>
    names.some(
      (name) => name === 'All' || name === key || (name.endsWith('.*') && key.startsWith(name.slice(0, -1))),
    );
  return Object.fromEntries(Object.entries(all).filter(([key]) => wanted(key)));
}

function getAttributes({ name, options, counts }: Queue, { AttributeNames = [] }: WireInput): object {
  const { visible, inFlight, delayed } = counts();
  const all: Record<string, string> = {
    QueueArn: `arn:aws:sqs:us-east-1:000000000000:${name}`,
    ApproximateNumberOfMessages: String(visible),
    ApproximateNumberOfMessagesNotVisible: String(inFlight),
    ApproximateNumberOfMessagesDelayed: String(delayed),
    VisibilityTimeout: String(options.visibilityTimeoutSeconds),
    MaximumMessageSize: String(options.maximumMessageBytes),
    DelaySeconds: String(options.delaySeconds),
    ...(name.endsWith('.fifo') && {
      FifoQueue: 'true',
      ContentBasedDeduplication: String(options.contentBasedDeduplication),
    }),
  };
  return { Attributes: pick(all, AttributeNames) };
}
