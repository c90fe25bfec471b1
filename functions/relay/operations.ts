import type { TickCounts } from './counts.ts';
import type { RelayParts } from './parts.ts';

/** CloudEvents source of what the relay says about itself. */
export const OPERATIONS_SOURCE = '/outbox';
/** Type: an event was given up to a person. Recorded once, when it is parked. */
export const EVENT_PARKED = 'outbox.event.parked';
/** Type: due events wait longer than `backlogLateSeconds`. */
export const BACKLOG_LATE = 'outbox.backlog.late';

/** Nothing is told again while a fact about an event that fell due up to so many limits earlier is kept. */
const SILENT_LIMITS = 24;

// The id is made of when the oldest event fell due, cut to the limit, as a version 8 UUID: while the same event is late,
// however many ticks and relays see it, it is one fact and one row.
const TELL_LATE = `
WITH fact AS (
  SELECT back, overlay(overlay(md5('${BACKLOG_LATE} ' || floor($4::float8 / $3::float8) - back)
    PLACING '8' FROM 13) PLACING '8' FROM 17)::uuid AS id FROM generate_series(0, ${SILENT_LIMITS}) AS back)
INSERT INTO outbox_event (event_id, destination, source, type, payload)
SELECT id, $1, '${OPERATIONS_SOURCE}', '${BACKLOG_LATE}',
       json_build_object('oldestSeconds', round($2::numeric, 1), 'limitSeconds', $3::float8)
FROM fact WHERE back = 0 AND NOT EXISTS (
  SELECT FROM outbox_event WHERE destination = $1 AND event_id = ANY (ARRAY(SELECT id FROM fact)))
ON CONFLICT (event_id, source, destination) DO NOTHING`;

/**
 * Records `outbox.backlog.late` when the oldest event of a run has waited too long and somebody is to be told.
 *
 * @param oldestSince when that event first fell due, epoch seconds on the database's clock
 */
export async function tellIfLate(
  { store, config }: Pick<RelayParts, 'store' | 'config'>,
  { oldestSeconds }: TickCounts,
  oldestSince: number,
): Promise<void> {
  const { operationsDestination, backlogLateSeconds } = config;
  if (operationsDestination === undefined || oldestSeconds <= backlogLateSeconds) return;
  await store.execute(TELL_LATE, [operationsDestination, oldestSeconds, backlogLateSeconds, oldestSince]);
}
