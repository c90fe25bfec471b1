import { ChangeMessageVisibilityBatchCommand, type SQSClient } from '@aws-sdk/client-sqs';
import type { SQSRecord } from 'aws-lambda';
import { backoffSeconds, type Backoff } from '../shared/backoff.ts';

/** SQS takes at most this many messages in a call. */
const MAX_ENTRIES = 10;

/** A record to be delivered again, after `delaySeconds` (whole, 0 or more). */
export interface Redelivery {
  readonly record: SQSRecord;
  readonly delaySeconds: number;
}

/** A redelivery whose delay grows with every receive of the record. */
export function growing(record: SQSRecord, backoff: Backoff, random: number): Redelivery {
  const count: unknown = record.attributes?.ApproximateReceiveCount;
  const receives = (typeof count === 'string' && Number(count)) || 1;
  return { record, delaySeconds: Math.round(backoffSeconds(receives, backoff, random)) };
}

/**
 * Asks SQS to deliver records again after their delays, instead of after the queue's whole visibility timeout.
 *
 * @throws when a call failed; the records then come again after the visibility timeout, so nothing is lost
 */
export async function redeliver(
  sqs: SQSClient,
  queueUrl: string,
  redeliveries: readonly Redelivery[],
  abortSignal: AbortSignal,
): Promise<void> {
  for (let at = 0; at < redeliveries.length; at += MAX_ENTRIES) {
    const Entries = redeliveries.slice(at, at + MAX_ENTRIES).map(({ record, delaySeconds }, index) => ({
      Id: String(index),
      ReceiptHandle: record.receiptHandle,
      VisibilityTimeout: delaySeconds,
    }));
    await sqs.send(new ChangeMessageVisibilityBatchCommand({ QueueUrl: queueUrl, Entries }), { abortSignal });
  }
}
