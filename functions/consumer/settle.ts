import type { SQSRecord } from 'aws-lambda';
import { abortAfter, CALL_TIMEOUT_MS, type TimeLeft } from '../shared/deadline.ts';
import { describeError } from '../shared/errors.ts';
import { isDone, type RecordResult } from './batch.ts';
import type { ConsumerParts } from './parts.ts';
import { growing, redeliver } from './retry.ts';

/** What one batch did, in records. */
export interface BatchCounts {
  readonly records: number;
  readonly applied: number;
  /** Milliseconds from recording to applying, of each applied event that says when it was recorded. */
  readonly applyLags: readonly number[];
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
    applyLags: results.flatMap(({ outcome }) => ('lagMs' in outcome ? [outcome.lagMs] : [])),
    duplicates: of('duplicate'),
    retried: of('retry'),
    terminal: of('terminal'),
    unstarted: of('unstarted'),
  };
}

/**
 * Gives the records that are not done with their delays: growing for those that failed, none for those not begun.
 *
 * @returns the records that must stay in the queue
 */
export async function settleRecords(
  { name: consumer, config, random, report, sqs }: ConsumerParts,
  results: readonly RecordResult[],
  timeLeft: TimeLeft,
): Promise<SQSRecord[]> {
  const backoff = { baseSeconds: config.retryBaseSeconds, maxSeconds: config.retryMaxSeconds };
  for (const { record, outcome } of results) {
    if (!('reason' in outcome)) continue;
    const { kind, reason } = outcome;
    report('consumer.record', { consumer, outcome: kind, messageId: record.messageId, reason });
  }
  const again = results
    .filter((result) => !isDone(result))
    .map(({ record, outcome }) =>
      outcome.kind === 'unstarted' ? { record, delaySeconds: 0 } : growing(record, backoff, random()),
    );
  try {
    await redeliver(sqs, config.queueUrl, again, abortAfter(Math.min(CALL_TIMEOUT_MS, timeLeft())));
  } catch (error) {
    report('consumer.delay_lost', { consumer, records: again.length, error: describeError(error) });
  }
  return again.map(({ record }) => record);
}
