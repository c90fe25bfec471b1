import type { Context } from 'aws-lambda';
import { invocationTimeLeft, type TimeLeft } from '../shared/deadline.ts';
import { nameInvocation, report } from '../shared/report.ts';
import { storeOf, type RawClient, type Store } from '../shared/store.ts';
import type { PruneConfig } from './config.ts';

/** Rows looked at by one statement; small, so that nothing waits for long. */
const PAGE = 5_000;
/** No statement is begun with less time than this. */
const SHORTEST_STEP_MS = 1_000;

// Walks the primary key from the oldest row on, so no index is needed for it. A row is published after it was recorded:
// past the first page whose rows were all recorded after the cutoff, nothing can be old enough.
const PRUNE_OUTBOX = `
WITH cutoff AS (SELECT clock_timestamp() - $2::float8 * interval '1 hour' AS at),
page AS MATERIALIZED (
  SELECT sequence, state, published_at, recorded_at FROM outbox_event
  WHERE sequence > $1::bigint ORDER BY sequence LIMIT ${PAGE}),
gone AS (
  DELETE FROM outbox_event
  WHERE sequence = ANY (ARRAY(
      SELECT sequence FROM page, cutoff WHERE state = 'PUBLISHED' AND published_at <= cutoff.at))
    AND state = 'PUBLISHED'
  RETURNING 1)
SELECT (SELECT count(*) FROM gone)::int AS pruned, max(sequence) AS last,
       coalesce(min(recorded_at) <= (SELECT at FROM cutoff), false) AS more
FROM page`;

const PRUNE_LEDGER = `
DELETE FROM applied_event
WHERE (consumer, source, event_id) IN (
  SELECT consumer, source, event_id FROM applied_event
  WHERE applied_at <= clock_timestamp() - $1::float8 * interval '1 day'
  ORDER BY applied_at LIMIT ${PAGE})`;

/**
 * Makes prune's Lambda handler over a Prisma client. The event's content does not matter. It deletes what is past its
 * retention, as far as one invocation comes, and returns how many rows went.
 */
export function prune({ prisma, config }: { readonly prisma: RawClient; readonly config: PruneConfig }) {
  const store = storeOf(prisma);
  return async (_event: unknown, context: Context): Promise<{ outbox: number; ledger: number }> => {
    nameInvocation(context);
    const timeLeft = invocationTimeLeft(context, 0);
    const counts = {
      outbox: await pruneOutbox(store, config.retentionHours, timeLeft),
      ledger: await pruneLedger(store, config.ledgerRetentionDays, timeLeft),
    };
    report('prune.done', counts);
    return counts;
  };
}

/**
 * Deletes published rows older than their retention, oldest first, in small statements. Age counts from publishing;
 * pending and parked rows are never touched.
 *
 * @returns rows deleted; what time did not allow is left for the next run
 * @throws TypeError when the retention is no number, before any SQL
 */
export async function pruneOutbox(store: Store, retentionHours: number, timeLeft: TimeLeft): Promise<number> {
  refuseUnlessNumber('retentionHours', retentionHours);
  let pruned = 0;
  let last = 0n;
  while (timeLeft() > SHORTEST_STEP_MS) {
    const [page] = await store.query<{ pruned: number; last: bigint | null; more: boolean }>(PRUNE_OUTBOX, [
      last,
      retentionHours,
    ]);
    pruned += page?.pruned ?? 0;
    if (!page?.more || page.last === null) break;
    last = page.last;
  }
  return pruned;
}

/**
 * Deletes applied events older than the ledger's retention, oldest first, in small statements.
 *
 * @returns rows deleted; what time did not allow is left for the next run
 * @throws TypeError when the retention is no number, before any SQL
 */
export async function pruneLedger(store: Store, retentionDays: number, timeLeft: TimeLeft): Promise<number> {
  refuseUnlessNumber('retentionDays', retentionDays);
  let pruned = 0;
  let step = PAGE;
  while (step === PAGE && timeLeft() > SHORTEST_STEP_MS) {
    step = await store.execute(PRUNE_LEDGER, [retentionDays]);
    pruned += step;
  }
  return pruned;
}

function refuseUnlessNumber(name: string, value: number): void {
  if (!Number.isFinite(value) || value < 0) {
    throw new TypeError(`prune: ${name}: expected a number of 0 or more, got ${value}`);
  }
}
