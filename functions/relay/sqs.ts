import { createHash } from 'node:crypto';
import {
  SendMessageBatchCommand,
  type SendMessageBatchRequestEntry,
  type SendMessageBatchResult,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import { writeEnvelope } from '../outbox/envelope.ts';
import { xRayHeader } from '../shared/trace.ts';
import type { ClaimedEvent } from './claim.ts';
import { isFifo, type SqsDestination } from './destination.ts';
import type { Outcome } from './outcome.ts';
import { blamesTheWay, isThrottling, reasonOf, type Sender } from './sender.ts';

type Entry = Omit<SendMessageBatchRequestEntry, 'Id'>;

/** A standard or FIFO queue, through `SendMessageBatch`. */
export function sqsSender(sqs: SQSClient, destination: SqsDestination): Sender<Entry> {
  const { queueUrl, maxBytes } = destination;
  return {
    maxEntries: 10,
    maxBytes,
    contentErrors: new Set(['BatchRequestTooLong', 'InvalidMessageContents', 'InvalidParameterValue']),
    write(event) {
      const MessageBody = writeEnvelope(event);
      return {
        message: { MessageBody, ...groupOf(destination, event), ...traceOf(event) },
        bytes: Buffer.byteLength(MessageBody),
      };
    },
    async call(entries, abortSignal) {
      const Entries = entries.map((entry, index) => ({ Id: String(index), ...entry }));
      const answer = await sqs.send(new SendMessageBatchCommand({ QueueUrl: queueUrl, Entries }), {
        abortSignal,
      });
      return entries.map((_, index) => outcomeOf(answer, String(index)));
    },
  };
}

/** X-Ray's header, so that services that know nothing of W3C see the trace. SQS does not count it as size. */
function traceOf({ traceParent }: ClaimedEvent): Partial<Entry> {
  const StringValue = xRayHeader(traceParent);
  if (StringValue === undefined) return {};
  return { MessageSystemAttributes: { AWSTraceHeader: { DataType: 'String', StringValue } } };
}

/**
 * FIFO: the group is the ordering key (an event without one is its own group), and the deduplication id is made
 * of what identifies the event (its source and id), the same for every attempt and never of its content; a replay asked for
 * by a person is a new one.
 * Standard: the group is the attribute that fair queues are asked to be fair by.
 */
function groupOf(
  destination: SqsDestination,
  { eventId, source, type, orderingKey, replays }: ClaimedEvent,
): Partial<Entry> {
  if (isFifo(destination)) {
    return {
      MessageGroupId: groupId(orderingKey ?? eventId),
      MessageDeduplicationId: sha256(`${eventId} ${replays} ${source}`),
    };
  }
  if (destination.fairBy === undefined) return {};
  const group = { source, type, partitionkey: orderingKey }[destination.fairBy];
  return group === null ? {} : { MessageGroupId: groupId(group) };
}

/** The key itself where SQS takes it as a group (128 ASCII letters, digits and punctuation), else its SHA-256. */
export function groupId(key: string): string {
  return /^[!-~]{1,128}$/.test(key) ? key : sha256(key);
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

function outcomeOf({ Successful, Failed }: SendMessageBatchResult, id: string): Outcome {
  const success = Successful?.find((entry) => entry.Id === id);
  if (success) return { kind: 'published', messageId: success.MessageId ?? '' };
  const failure = Failed?.find((entry) => entry.Id === id);
  if (!failure)
    return { kind: 'unavailable', reason: 'Unaccounted: in neither list of the answer', whole: false };
  const reason = reasonOf(failure.Code, failure.Message);
  // SQS calls throttling the sender's fault too.
  return failure.SenderFault && !blamesTheWay(failure.Code ?? '')
    ? { kind: 'refused', reason }
    : { kind: 'unavailable', reason, whole: isThrottling(reason) };
}
