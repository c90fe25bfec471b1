import { SendMessageCommand, type MessageAttributeValue, type SQSClient } from '@aws-sdk/client-sqs';
import type { SQSRecord } from 'aws-lambda';
import { describeError } from '../shared/errors.ts';
import type { ConsumerParts } from './parts.ts';

/** SQS's limit on the attributes of one message. */
const MAX_ATTRIBUTES = 10;
/** SQS's limit on a message, in bytes: body, and names, types and values of attributes. */
const MAX_BYTES = 1_048_576;

/**
 * Sends a record that can never be applied to the dead-letter queue at once, body unchanged, with the attributes
 * `outbox-reason`, `outbox-consumer` and `outbox-message-id` (the message it was). As many of its own attributes go
 * along as SQS has room for; beside a body that fills a message, none.
 *
 * @throws when SQS did not take it; the record must then stay where it is
 */
async function deadLetter(
  sqs: SQSClient,
  queueUrl: string,
  record: SQSRecord,
  { consumer, reason }: { readonly consumer: string; readonly reason: string },
  abortSignal: AbortSignal,
): Promise<void> {
  const ours: [string, MessageAttributeValue][] = [
    ['outbox-reason', text(reason)],
    ['outbox-consumer', text(consumer)],
    ['outbox-message-id', text(record.messageId)],
  ];
  const own = Object.entries(record.messageAttributes ?? {})
    .filter(([name]) => !name.startsWith('outbox-'))
    .map(([name, { dataType, stringValue, binaryValue }]): [string, MessageAttributeValue] => [
      name,
      binaryValue === undefined
        ? { DataType: dataType, StringValue: stringValue }
        : { DataType: dataType, BinaryValue: Buffer.from(binaryValue, 'base64') },
    ]);
  await sqs.send(
    new SendMessageCommand({
      QueueUrl: queueUrl,
      MessageBody: record.body,
      MessageAttributes: fitting([...ours, ...own], MAX_BYTES - Buffer.byteLength(record.body)),
      // The dead-letter queue of a FIFO queue is FIFO too; a record buried twice within minutes is one dead letter.
      ...(queueUrl.endsWith('.fifo') && {
        MessageGroupId: record.attributes.MessageGroupId ?? record.messageId,
        MessageDeduplicationId: record.messageId,
      }),
    }),
    { abortSignal },
  );
}

/** As many attributes, from the first on, as SQS takes beside a body that leaves `room` bytes. */
function fitting(
  attributes: readonly [string, MessageAttributeValue][],
  room: number,
): Record<string, MessageAttributeValue> {
  let left = room;
  return Object.fromEntries(
    attributes.slice(0, MAX_ATTRIBUTES).filter(([name, { DataType = '', StringValue, BinaryValue }]) => {
      const bytes = Buffer.byteLength(name + DataType) + Buffer.byteLength(StringValue ?? BinaryValue ?? '');
      const fits = bytes <= left;
      if (fits) left -= bytes;
      return fits;
    }),
  );
}

/** Only what SQS allows in an attribute: no control characters, no lone surrogates, not empty. */
function text(value: string): MessageAttributeValue {
  // oxlint-disable-next-line no-control-regex -- control characters are what it looks for
  const clean = value.toWellFormed().replace(/[\u0000-\u0008\u000B\u000C\u000E-\u001F\uFFFE\uFFFF]/g, '�');
  return { DataType: 'String', StringValue: clean || '(none)' };
}

/**
 * Sends a record to the consumer's dead-letter queue, if it has one.
 *
 * @returns whether that queue has taken it; else the record stays where it is
 */
export async function bury(
  { name: consumer, config, sqs, report }: ConsumerParts,
  record: SQSRecord,
  reason: string,
  signal: AbortSignal,
): Promise<boolean> {
  if (config.deadLetterQueueUrl === undefined) return false;
  try {
    await deadLetter(sqs, config.deadLetterQueueUrl, record, { consumer, reason }, signal);
    return true;
  } catch (error) {
    report('consumer.dead_letter_failed', {
      consumer,
      messageId: record.messageId,
      error: describeError(error),
    });
    return false;
  }
}
