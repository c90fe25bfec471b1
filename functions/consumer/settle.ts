import type { SQSRecord } from 'aws-lambda';
import { describeError } from '../shared/errors.ts';
import type { TransactionClient } from '../shared/store.ts';
import type { RecordResult } from './batch.ts';
import { deadLetter } from './deadletter.ts';
import type { ConsumerParts } from './parts.ts';
import { growing, redeliver, type Redelivery } from './retry.ts';

/** What one batch did, in records. */
export interface BatchCounts {
  readonly records: number;
  readonly applied: number;
  /** Applied before; success. */
  readonly duplicates: number;
  /** Will be delivered again, later each time. */
  readonly retried: number;
  /** Will never be applied; in the dead-letter queue, or on its way there. */
  readonly terminal: number;
  /** Not begun for want of time; delivered again at once. */
  readonly unstarted: number;
}

/** Counts outcomes. */
export function countOutcomes(results: readonly RecordResult[]): BatchCounts {
  const of = (kind: RecordResult['outcome']['kind']) =>
    results.filter(({ outcome }) => outcome.kind === kind).length;
  return {
    records: results.length,
    applied: of('applied'),
    duplicates: of('duplicate'),
    retried: of('retry'),
    terminal: of('terminal'),
    unstarted: of('unstarted'),
  };
}

/**
 * Does what each outcome asks for: terminal records go to the dead-letter queue, failed ones get their delay.
 *
 * @returns the records that must stay in the queue
 */
export async function settleRecords<Tx extends TransactionClient>(
  parts: ConsumerParts<Tx>,
  results: readonly RecordResult[],
): Promise<SQSRecord[]> {
  const { name: consumer, config, report } = parts;
  const stay: Redelivery[] = [];
  for (const result of results) stay.push(...(await redeliveryOf(parts, result)));
  try {
    await redeliver(parts.sqs, config.queueUrl, stay);
  } catch (error) {
    report('consumer.delay_lost', { consumer, records: stay.length, error: describeError(error) });
  }
  return stay.map(({ record }) => record);
}

/** One redelivery, or none when the record is done with. */
async function redeliveryOf<Tx extends TransactionClient>(
  parts: ConsumerParts<Tx>,
  { record, outcome }: RecordResult,
): Promise<Redelivery[]> {
  const { name: consumer, config, random, report } = parts;
  switch (outcome.kind) {
    case 'applied':
    case 'duplicate':
      return [];
    case 'unstarted':
      return [{ record, delaySeconds: 0 }];
    case 'terminal':
    case 'retry': {
      const { kind, reason } = outcome;
      report('consumer.record', { consumer, outcome: kind, messageId: record.messageId, reason });
      if (kind === 'terminal' && (await buried(parts, record, reason))) return [];
      const backoff = { baseSeconds: config.retryBaseSeconds, maxSeconds: config.retryMaxSeconds };
      return [growing(record, backoff, random())];
    }
  }
}

/** Whether the dead-letter queue has taken it; without one, or if it did not, the record stays in its queue. */
async function buried<Tx extends TransactionClient>(
  { name: consumer, config, sqs, report }: ConsumerParts<Tx>,
  record: SQSRecord,
  reason: string,
): Promise<boolean> {
  if (config.deadLetterQueueUrl === undefined) return false;
  try {
    await deadLetter(sqs, config.deadLetterQueueUrl, record, { consumer, reason });
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
