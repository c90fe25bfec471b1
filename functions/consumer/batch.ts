import type { SQSRecord } from 'aws-lambda';
import pLimit from 'p-limit';
import { describeError } from '../shared/errors.ts';
import { abortAfter, CALL_TIMEOUT_MS, countdown, type TimeLeft } from '../shared/deadline.ts';
import { applyOne, applyTogether, outcomeOf, type ApplyOutcome, type Ledger } from './apply.ts';
import { bury } from './deadletter.ts';
import type { ConsumerParts } from './parts.ts';
import { prepare, type Prepared } from './prepare.ts';

/**
 * A record and what became of it; `unstarted` ones were not begun, for want of time or because an earlier record of
 * their message group failed.
 */
export interface RecordResult {
  readonly record: SQSRecord;
  readonly outcome: ApplyOutcome | { readonly kind: 'unstarted' };
  /** Whether the dead-letter queue has taken it; only ever true of a terminal record. */
  readonly isBuried: boolean;
}

/** A record is not begun with less time than this, nor with less than the longest one so far took. */
const SHORTEST_RECORD_MS = 500;
/** Added to the time left for Prisma's own transaction limit, so that it is never the first to fire. */
const TRANSACTION_GRACE_MS = 60_000;

/**
 * Applies the records of a batch, each on its own: one that fails does not touch its neighbours, but of a FIFO queue
 * it stops the rest of its message group. Never throws for a record.
 */
export async function applyBatch(
  parts: ConsumerParts,
  records: readonly SQSRecord[],
  timeLeft: TimeLeft,
): Promise<RecordResult[]> {
  const ledger: Ledger = {
    consumer: parts.name,
    prisma: parts.prisma,
    timeoutMs: Math.max(0, timeLeft()) + TRANSACTION_GRACE_MS,
    timeLeft,
  };
  const prepareAll = () => Promise.all(records.map((record) => prepare(record, parts.types, parts.effects)));
  const prepared = await prepareAll();
  if (parts.transactionPer === 'record') return applyEach(parts, ledger, prepared);
  const together = await tryTogether(parts, ledger, prepared);
  // Read again: an effect may have changed the data it was given.
  return together ?? applyEach(parts, ledger, await prepareAll());
}

/** A transaction for each record, as many at once as configured; none is begun when the time is short. */
async function applyEach(
  parts: ConsumerParts,
  ledger: Ledger,
  prepared: readonly Prepared[],
): Promise<RecordResult[]> {
  const limit = pLimit(parts.config.concurrency);
  let longestMs = SHORTEST_RECORD_MS;
  const start = async (one: Prepared): Promise<RecordResult['outcome']> => {
    if ('outcome' in one) return one.outcome;
    if (ledger.timeLeft() < longestMs) return { kind: 'unstarted' };
    const began = performance.now();
    const outcome = await applyOne(ledger, one.applicable);
    longestMs = Math.max(longestMs, performance.now() - began);
    return outcome;
  };
  const groups = inOrderOf(prepared).map((group) =>
    limit(() => applyInOrder(parts, group, start, ledger.timeLeft)),
  );
  return (await Promise.all(groups)).flat();
}

/** Message groups of a FIFO queue, each in its order; records of a standard queue are each a group of their own. */
function inOrderOf(prepared: readonly Prepared[]): Prepared[][] {
  const groups = Map.groupBy(prepared, ({ record }) =>
    isFifo(record) ? (record.attributes?.MessageGroupId ?? record) : record,
  );
  return [...groups.values()];
}

const isFifo = ({ eventSourceARN }: SQSRecord) => eventSourceARN?.endsWith('.fifo');

async function applyInOrder(
  parts: ConsumerParts,
  group: readonly Prepared[],
  start: (one: Prepared) => Promise<RecordResult['outcome']>,
  timeLeft: TimeLeft,
): Promise<RecordResult[]> {
  const results: RecordResult[] = [];
  let mayGoOn = true;
  for (const one of group) {
    const result = await conclude(
      parts,
      one.record,
      mayGoOn ? await start(one) : { kind: 'unstarted' },
      timeLeft,
    );
    results.push(result);
    // A group goes on past what is done with: applied, or in the dead-letter queue.
    mayGoOn &&= isDone(result);
  }
  return results;
}

/** Whether the record has nothing left to do in its queue. */
export const isDone = ({ outcome: { kind }, isBuried }: RecordResult) =>
  kind === 'applied' || kind === 'duplicate' || isBuried;

/** A terminal record goes to the dead-letter queue at once. */
async function conclude(
  parts: ConsumerParts,
  record: SQSRecord,
  outcome: RecordResult['outcome'],
  timeLeft: TimeLeft,
): Promise<RecordResult> {
  if (outcome.kind !== 'terminal') return { record, outcome, isBuried: false };
  // Half of the time, so that what follows has the other half.
  const isBuried = await bury(
    parts,
    record,
    outcome.reason,
    abortAfter(Math.min(CALL_TIMEOUT_MS, timeLeft() / 2)),
  );
  return { record, outcome, isBuried };
}

/** All in one transaction, or undefined when anything failed or half the time was not enough. */
async function tryTogether(
  parts: ConsumerParts,
  ledger: Ledger,
  prepared: readonly Prepared[],
): Promise<RecordResult[] | undefined> {
  const applicables = prepared.flatMap((one) => ('applicable' in one ? [one.applicable] : []));
  // Of a FIFO queue, what is terminal already must take its turn in its group.
  const outOfTurn = applicables.length < prepared.length && prepared.some(({ record }) => isFifo(record));
  if (applicables.length === 0 || outOfTurn || ledger.timeLeft() < SHORTEST_RECORD_MS) return undefined;
  try {
    // The other half is for doing one by one what can be done: a batch that is too slow would be too slow each time.
    const inHalf = { ...ledger, timeLeft: countdown(ledger.timeLeft() / 2) };
    const applied = await applyTogether(inHalf, applicables);
    return await Promise.all(
      prepared.map((one) => {
        const outcome: RecordResult['outcome'] =
          'outcome' in one ? one.outcome : outcomeOf(one.applicable, applied);
        return conclude(parts, one.record, outcome, ledger.timeLeft);
      }),
    );
  } catch (error) {
    parts.report('consumer.fell_back', {
      consumer: parts.name,
      records: applicables.length,
      error: describeError(error),
    });
    return undefined;
  }
}
