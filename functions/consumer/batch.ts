import type { SQSRecord } from 'aws-lambda';
import pLimit from 'p-limit';
import { describeError } from '../shared/errors.ts';
import type { TimeLeft } from '../shared/deadline.ts';
import type { TransactionClient } from '../shared/store.ts';
import { applyOne, applyTogether, type Applicable, type ApplyOutcome, type Ledger } from './apply.ts';
import type { ConsumerParts } from './parts.ts';
import { prepare } from './prepare.ts';

/** A record and what became of it; `unstarted` ones were not begun for want of time. */
export interface RecordResult {
  readonly record: SQSRecord;
  readonly outcome: ApplyOutcome | { readonly kind: 'unstarted' };
}

/** A record is not begun with less time than this, nor with less than the longest one so far took. */
const SHORTEST_RECORD_MS = 500;
/** Added to the time left for Prisma's own transaction limit, so that it is never the first to fire. */
const TRANSACTION_GRACE_MS = 60_000;

/**
 * Applies the records of a batch, each on its own: one that fails does not touch its neighbours.
 * Never throws for a record.
 */
export async function applyBatch<Tx extends TransactionClient>(
  parts: ConsumerParts<Tx>,
  records: readonly SQSRecord[],
  timeLeft: TimeLeft,
): Promise<RecordResult[]> {
  const ledger: Ledger<Tx> = {
    consumer: parts.name,
    prisma: parts.prisma,
    timeoutMs: Math.max(0, timeLeft()) + TRANSACTION_GRACE_MS,
  };
  const prepared = await Promise.all(records.map((record) => prepare(record, parts.types, parts.effects)));
  const together =
    parts.transactionPer === 'batch'
      ? await tryTogether(
          parts,
          ledger,
          prepared.flatMap((p) => ('applicable' in p ? [p.applicable] : [])),
        )
      : undefined;
  const limit = pLimit(parts.config.concurrency);
  let longestMs = SHORTEST_RECORD_MS;
  return Promise.all(
    prepared.map(async (one): Promise<RecordResult> => {
      const { record } = one;
      if ('outcome' in one) return { record, outcome: one.outcome };
      const { applicable } = one;
      if (together) {
        return { record, outcome: { kind: together.has(applicable) ? 'applied' : 'duplicate' } };
      }
      return limit(async () => {
        if (timeLeft() < longestMs) return { record, outcome: { kind: 'unstarted' } };
        const began = performance.now();
        const outcome = await applyOne(ledger, applicable);
        longestMs = Math.max(longestMs, performance.now() - began);
        return { record, outcome };
      });
    }),
  );
}

/** All in one transaction, or undefined when anything failed: each record then has a transaction of its own. */
async function tryTogether<Tx extends TransactionClient>(
  { name, report }: ConsumerParts<Tx>,
  ledger: Ledger<Tx>,
  applicables: readonly Applicable<Tx>[],
): Promise<Set<Applicable<Tx>> | undefined> {
  try {
    return applicables.length > 0 ? await applyTogether(ledger, applicables) : undefined;
  } catch (error) {
    report('consumer.fell_back', {
      consumer: name,
      records: applicables.length,
      error: describeError(error),
    });
    return undefined;
  }
}
