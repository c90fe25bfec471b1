import { SendMessageCommand, type MessageAttributeValue, type SQSClient } from '@aws-sdk/client-sqs';
import type { SQSRecord } from 'aws-lambda';

/** SQS's limit on the attributes of one message; three of them are ours. */
const MAX_ATTRIBUTES = 10;

/**
 * Sends a record that can never be applied to the dead-letter queue at once, body unchanged, with the attributes
 * `outbox-reason`, `outbox-consumer` and `outbox-message-id` (the message it was). As many of its own attributes go
 * along as SQS has room for.
 *
 * @throws when SQS did not take it; the record must then stay where it is
 */
export async function deadLetter(
  sqs: SQSClient,
  queueUrl: string,
  record: SQSRecord,
  { consumer, reason }: { readonly consumer: string; readonly reason: string },
): Promise<void> {
  const own = Object.entries(record.messageAttributes ?? {})
    .filter(([name]) => !name.startsWith('outbox-'))
    .slice(0, MAX_ATTRIBUTES - 3)
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
      MessageAttributes: {
        ...Object.fromEntries(own),
        'outbox-reason': text(reason),
        'outbox-consumer': text(consumer),
        'outbox-message-id': text(record.messageId),
      },
    }),
  );
}

/** Only what SQS allows in an attribute: no control characters, no lone surrogates, not empty. */
function text(value: string): MessageAttributeValue {
  // oxlint-disable-next-line no-control-regex -- control characters are what it looks for
  const clean = value.toWellFormed().replace(/[\u0000-\u0008\u000B\u000C\u000E-\u001F\uFFFE\uFFFF]/g, '�');
  return { DataType: 'String', StringValue: clean || '(none)' };
}
