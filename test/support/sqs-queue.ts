// One queue's messages: sent, received under a visibility timeout, deleted.

import { randomUUID } from 'node:crypto';
import {
  checkMessage,
  md5,
  md5OfAttributes,
  SqsFault,
  type QueueRules,
  type WireAttribute,
  type WireEntry,
} from './sqs-rules.ts';

const DEDUPLICATION_WINDOW_MS = 5 * 60_000;
const MAXIMUM_VISIBILITY_SECONDS = 43_200;

/** How a queue is set; SQS's own defaults. It is FIFO when its name ends in `.fifo`. */
export interface QueueOptions {
  maximumMessageBytes?: number;
  visibilityTimeoutSeconds?: number;
  delaySeconds?: number;
  contentBasedDeduplication?: boolean;
}

/** A message the queue has accepted. */
export interface StoredMessage {
  messageId: string;
  body: string;
  attributes: Record<string, WireAttribute>;
  systemAttributes: Record<string, WireAttribute>;
  groupId: string | undefined;
  deduplicationId: string | undefined;
  /** FIFO only. */
  sequenceNumber: string | undefined;
  /** Milliseconds since the epoch, by the endpoint's clock. */
  sentAt: number;
  /** When it may be received: later than now while delayed or in flight. */
  visibleAt: number;
  firstReceivedAt: number | undefined;
  receiveCount: number;
  deleted: boolean;
}

/** What SQS answers for an accepted message. */
export interface SendResult {
  MessageId: string;
  MD5OfMessageBody: string;
  MD5OfMessageAttributes?: string;
  SequenceNumber?: string;
}

/** A queue. `now` (milliseconds) decides delays, visibility and the deduplication window. */
export interface Queue {
  name: string;
  options: Required<QueueOptions>;
  /** Stores a message. Throws SqsFault when SQS would not take it. A FIFO duplicate is answered like the first. */
  send(entry: WireEntry): SendResult;
  /** Takes up to `limit` visible messages for `visibilitySeconds`; FIFO: none of a group with one in flight. */
  receive(limit: number, visibilitySeconds?: number): StoredMessage[];
  /** An outdated handle changes nothing, as in SQS. Throws SqsFault when it is no handle at all. */
  remove(receiptHandle: string): void;
  /** Throws SqsFault when the message is not in flight or the timeout is not 0 … 43,200 seconds. */
  changeVisibility(receiptHandle: string, seconds: number): void;
  /** Every message ever accepted, in order, deleted ones too. */
  stored: StoredMessage[];
  /** Counts as GetQueueAttributes gives them. */
  counts: () => { visible: number; inFlight: number; delayed: number };
}

interface State {
  rules: QueueRules;
  options: Required<QueueOptions>;
  now: () => number;
  stored: StoredMessage[];
  live: Map<string, StoredMessage>;
  deduplicated: Map<string, { at: number; result: SendResult }>;
  sequence: bigint;
}

/** The handle under which a message was last received. */
export const receiptHandleOf = (message: StoredMessage): string =>
  `${message.messageId}.${message.receiveCount}`;

/** An empty queue. */
export function createQueue(name: string, given: QueueOptions, now: () => number): Queue {
  const options = {
    maximumMessageBytes: 1_048_576,
    visibilityTimeoutSeconds: 30,
    delaySeconds: 0,
    contentBasedDeduplication: false,
    ...given,
  };
  const state: State = {
    rules: { fifo: name.endsWith('.fifo'), ...options },
    options,
    now,
    stored: [],
    live: new Map(),
    deduplicated: new Map(),
    sequence: 0n,
  };
  return {
    name,
    options,
    stored: state.stored,
    send: (entry) => send(state, entry),
    receive: (limit, visibilitySeconds = options.visibilityTimeoutSeconds) =>
      receive(state, limit, visibilitySeconds),
    remove: (receiptHandle) => remove(state, receiptHandle),
    changeVisibility: (receiptHandle, seconds) => changeVisibility(state, receiptHandle, seconds),
    counts: () => count(state),
  };
}

function send(state: State, entry: WireEntry): SendResult {
  checkMessage(entry, state.rules);
  const deduplicationId = state.rules.fifo
    ? (entry.MessageDeduplicationId ?? md5(entry.MessageBody))
    : undefined;
  const earlier = deduplicationId === undefined ? undefined : state.deduplicated.get(deduplicationId);
  if (earlier && state.now() - earlier.at < DEDUPLICATION_WINDOW_MS)
    return { ...earlier.result, ...checksums(entry) };
  const message = store(state, entry, deduplicationId);
  const result: SendResult = {
    MessageId: message.messageId,
    ...checksums(entry),
    ...(message.sequenceNumber !== undefined && { SequenceNumber: message.sequenceNumber }),
  };
  if (deduplicationId !== undefined) state.deduplicated.set(deduplicationId, { at: message.sentAt, result });
  return result;
}

function checksums(entry: WireEntry): Pick<SendResult, 'MD5OfMessageBody' | 'MD5OfMessageAttributes'> {
  const ofAttributes = md5OfAttributes(entry.MessageAttributes);
  return {
    MD5OfMessageBody: md5(entry.MessageBody),
    ...(ofAttributes !== undefined && { MD5OfMessageAttributes: ofAttributes }),
  };
}

function store(state: State, entry: WireEntry, deduplicationId: string | undefined): StoredMessage {
  const sentAt = state.now();
  const message: StoredMessage = {
    messageId: randomUUID(),
    body: entry.MessageBody,
    attributes: entry.MessageAttributes ?? {},
    systemAttributes: entry.MessageSystemAttributes ?? {},
    groupId: entry.MessageGroupId,
    deduplicationId,
    sequenceNumber: state.rules.fifo ? String(++state.sequence).padStart(20, '0') : undefined,
    sentAt,
    visibleAt: sentAt + (entry.DelaySeconds ?? state.options.delaySeconds) * 1_000,
    firstReceivedAt: undefined,
    receiveCount: 0,
    deleted: false,
  };
  state.stored.push(message);
  state.live.set(message.messageId, message);
  return message;
}

function receive(state: State, limit: number, visibilitySeconds: number): StoredMessage[] {
  const now = state.now();
  const taken: StoredMessage[] = [];
  const blocked = new Set<string | undefined>();
  for (const message of state.live.values()) {
    if (taken.length === limit) break;
    const groupBlocked = state.rules.fifo && blocked.has(message.groupId);
    if (message.visibleAt > now || groupBlocked) blocked.add(message.groupId);
    else taken.push(message);
  }
  for (const message of taken) {
    message.receiveCount++;
    message.firstReceivedAt ??= now;
    message.visibleAt = now + visibilitySeconds * 1_000;
  }
  return taken;
}

function remove(state: State, receiptHandle: string): void {
  const message = find(state, receiptHandle);
  if (!message || receiptHandleOf(message) !== receiptHandle) return;
  message.deleted = true;
  state.live.delete(message.messageId);
}

function changeVisibility(state: State, receiptHandle: string, seconds: number): void {
  if (!Number.isInteger(seconds) || seconds < 0 || seconds > MAXIMUM_VISIBILITY_SECONDS)
    throw new SqsFault(
      'InvalidParameterValue',
      `Value ${seconds} for parameter VisibilityTimeout is invalid. Reason: Must be between 0 and ${MAXIMUM_VISIBILITY_SECONDS}.`,
    );
  const message = find(state, receiptHandle);
  if (!message || receiptHandleOf(message) !== receiptHandle || message.visibleAt <= state.now())
    throw new SqsFault('MessageNotInflight', 'The specified message is not in flight.');
  message.visibleAt = state.now() + seconds * 1_000;
}

function find(state: State, receiptHandle: string): StoredMessage | undefined {
  const [messageId = '', receives] = receiptHandle.split('.');
  if (!receives)
    throw new SqsFault(
      'ReceiptHandleIsInvalid',
      `The input receipt handle "${receiptHandle}" is not a valid receipt handle.`,
    );
  return state.live.get(messageId);
}

function count(state: State): { visible: number; inFlight: number; delayed: number } {
  const counts = { visible: 0, inFlight: 0, delayed: 0 };
  for (const { visibleAt, receiveCount } of state.live.values()) {
    if (visibleAt <= state.now()) counts.visible++;
    else if (receiveCount > 0) counts.inFlight++;
    else counts.delayed++;
  }
  return counts;
}
