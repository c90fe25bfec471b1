import type { Store } from '../shared/store.ts';

/** How far behind the relay is. */
export interface Measured {
  /** Events that have fallen due and are not published yet, those under a lease or waiting for a retry too. */
  readonly backlog: number;
  /** How long the oldest of them has been waiting, in seconds on the database's clock; 0 when there is none. */
  readonly backlogAgeSeconds: number;
  /** Events that wait for a person. */
  readonly parked: number;
  /** Rows of the outbox that vacuum has yet to remove, by PostgreSQL's own estimate. */
  readonly deadRows: number;
  /** Size of the outbox with its indexes. */
  readonly tableBytes: number;
}

/** Rows looked at in each of the three places, at most: a count that reaches it means "so many or more". */
export const LOOKED_AT = 100_001;

// What is read is bounded by what is looked at, not by what is found: rows that are not due yet are counted in. Without
// a key they come in the order of `due_at`, so what is due comes first; with one in the order of the keys.
// An event that back-off made wait has been due since `waiting_since`, as for the relay's own `oldestSeconds`.
const MEASURE = `
WITH waiting AS (
  (SELECT coalesce(waiting_since, due_at) AS since FROM outbox_event
   WHERE state = 'PENDING' AND ordering_key IS NULL
   ORDER BY due_at, sequence LIMIT ${LOOKED_AT})
  UNION ALL
  (SELECT CASE WHEN state = 'PENDING' THEN coalesce(waiting_since, due_at) END FROM outbox_event
   WHERE state <> 'PUBLISHED' AND ordering_key IS NOT NULL
   ORDER BY destination, ordering_key, sequence LIMIT ${LOOKED_AT})),
parked AS (
  SELECT FROM outbox_event WHERE state = 'PARKED' ORDER BY sequence LIMIT ${LOOKED_AT})
SELECT count(*) FILTER (WHERE since <= now())::int AS backlog,
  greatest(0, coalesce(extract(epoch FROM now() - min(since)), 0))::float8 AS "backlogAgeSeconds",
  (SELECT count(*)::int FROM parked) AS parked,
  pg_stat_get_dead_tuples('outbox_event'::regclass)::float8 AS "deadRows",
  pg_total_relation_size('outbox_event')::float8 AS "tableBytes"
FROM waiting`;

/** Measures the backlog in one statement, whose cost does not grow with it. */
export async function measureBacklog(store: Store): Promise<Measured> {
  const [measured] = await store.query<Measured>(MEASURE, []);
  if (!measured) throw new Error('gauge: the database gave no answer');
  return measured;
}
