import { inTime, type TimeLeft } from '../shared/deadline.ts';
import { describeError, isTerminal } from '../shared/errors.ts';
import { linkedSpan } from '../shared/trace.ts';
import { storeOf, type RootClient, type Store, type TransactionClient } from '../shared/store.ts';
import type { ReceivedEvent } from '../outbox/event.ts';

/**
 * What an effect is: writes through `tx` that belong to one event. Anything else it does may happen more than once.
 * `consumer` has checked its types; from here on any transaction client will do.
 */
export type Effect = (tx: TransactionClient, event: ReceivedEvent) => Promise<unknown>;

/** A valid event, the effect that its type has, and the ledger's key for it. */
export interface Applicable {
  readonly event: ReceivedEvent;
  readonly effect: Effect;
}

/**
 * `duplicate` is success: the effect was applied before. `retry` may succeed later, `terminal` never will.
 * `lagMs` is how long after its recording (or after the later time it was recorded for) an event was applied, where it
 * says when that was.
 */
export type ApplyOutcome =
  | { readonly kind: 'applied'; readonly lagMs: number }
  | { readonly kind: 'applied' | 'duplicate' }
  | { readonly kind: 'retry' | 'terminal'; readonly reason: string };

/** How to open a transaction, and in whose name the ledger is kept. */
export interface Ledger {
  readonly consumer: string;
  readonly prisma: RootClient;
  /** Milliseconds; above the time left of the invocation, so that this limit is never the first to fire. */
  readonly timeoutMs: number;
  /** An effect that is not done when this is over is rolled back. */
  readonly timeLeft: TimeLeft;
}

/** How long a rollback may take before nobody waits for it any more. */
const ROLLBACK_MS = 300;

// Rows come sorted, so that two batches with the same events wait for each other instead of deadlocking.
const ENTER = `
INSERT INTO applied_event (consumer, source, event_id)
SELECT $1, e.source, e.event_id FROM unnest($2::text[], $3::uuid[]) AS e(source, event_id)
ORDER BY e.source, e.event_id
ON CONFLICT DO NOTHING
RETURNING source, event_id AS id`;

const STILL_ENTERED = `
SELECT count(*)::int AS entered, extract(epoch FROM clock_timestamp())::float8 * 1000 AS "atMs" FROM applied_event
WHERE consumer = $1 AND (source, event_id) IN (SELECT * FROM unnest($2::text[], $3::uuid[]))
  AND xmin = pg_current_xact_id()::xid`;

/**
 * Applies one event exactly once: its ledger row and its effect commit together or not at all.
 * Never throws; what went wrong is in the outcome.
 */
export async function applyOne(ledger: Ledger, applicable: Applicable): Promise<ApplyOutcome> {
  try {
    const applied = await applyTogether(ledger, [applicable]);
    return outcomeOf(applicable, applied);
  } catch (error) {
    return { kind: isTerminal(error) ? 'terminal' : 'retry', reason: describeError(error) };
  }
}

/** What became of one of the events that were applied together. */
export function outcomeOf(applicable: Applicable, applied: ReadonlyMap<Applicable, number>): ApplyOutcome {
  const atMs = applied.get(applicable);
  if (atMs === undefined) return { kind: 'duplicate' };
  const { time = '', dueTime = time } = applicable.event;
  const lagMs = atMs - Date.parse(dueTime);
  // Two databases may disagree on the time by a little.
  return Number.isNaN(lagMs)
    ? { kind: 'applied' }
    : { kind: 'applied', lagMs: Math.max(0, Math.round(lagMs)) };
}

/**
 * Applies several events in one transaction, in the order given: all of them or none.
 *
 * @returns those that were applied, with when (milliseconds since 1970, on the database's clock); the others had been
 *   applied before
 * @throws whatever an effect or the database threw, or that the time was over; then nothing of any of them was written
 */
export async function applyTogether(
  { consumer, prisma, timeoutMs, timeLeft }: Ledger,
  applicables: readonly Applicable[],
): Promise<Map<Applicable, number>> {
  const work = prisma.$transaction(
    async (tx) => {
      const store = storeOf(tx);
      const rows = await store.query<LedgerKey>(ENTER, ledgerKeys(consumer, applicables));
      const entered = new Set(rows.map(keyOf));
      // `delete`, not `has`: the second of two equal events in one batch finds its key taken.
      const fresh = applicables.filter(({ event }) => entered.delete(keyOf(event)));
      try {
        for (const { effect, event } of fresh) {
          await inTime(
            linkedSpan(`apply ${event.type}`, 'consumer', [event.traceParent], () => effect(tx, event)),
            timeLeft,
          );
        }
        const atMs = fresh.length > 0 ? await proveAlive(store, consumer, fresh) : 0;
        return new Map(fresh.map((each) => [each, atMs]));
      } catch (error) {
        await spoil(store);
        throw error;
      }
    },
    { maxWait: timeoutMs, timeout: timeoutMs },
  );
  // A statement that hangs keeps the rollback waiting too.
  return inTime(Promise.resolve(work), () => timeLeft() + ROLLBACK_MS);
}

/**
 * Makes the transaction unable to take anything in. Prisma rolls back without waiting for what an effect still does, and
 * the next statement of an operation with several would then commit on its own.
 */
async function spoil(store: Store): Promise<void> {
  await store.query('SELECT 1/0', []).catch(() => undefined);
}

/**
 * An effect may have swallowed an error, and COMMIT would then roll back without saying so; or it ended the
 * transaction itself. Either way no ledger row of this very transaction can be read back here.
 *
 * @returns the database's time, milliseconds since 1970
 */
async function proveAlive(store: Store, consumer: string, fresh: readonly Applicable[]): Promise<number> {
  const [row] = await store.query<{ entered: number; atMs: number }>(
    STILL_ENTERED,
    ledgerKeys(consumer, fresh),
  );
  if (row?.entered !== fresh.length) {
    throw new Error(
      'an effect ended the transaction that holds its ledger row; it may only use the tx it is given',
    );
  }
  return row.atMs;
}

type LedgerKey = Pick<ReceivedEvent, 'source' | 'id'>;

const keyOf = ({ source, id }: LedgerKey) => `${id} ${source}`;

const ledgerKeys = (consumer: string, applicables: readonly Applicable[]) => [
  consumer,
  applicables.map(({ event }) => event.source),
  applicables.map(({ event }) => event.id),
];
