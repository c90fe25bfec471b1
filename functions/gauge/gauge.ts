import type { Context } from 'aws-lambda';
import { nameInvocation, report } from '../shared/report.ts';
import { storeOf, type RawClient, type Store } from '../shared/store.ts';

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

/** Counts from an index alone end here: this many or more. */
const COUNTED = 100_001;
/** Rows themselves are looked at only so far, in each of the three places. */
const LOOKED_AT = 10_001;

const DUE = `state = 'PENDING' AND ordering_key IS NULL AND due_at <= now()`;

// What is read is bounded by what is looked at, whatever there is to be found; the indexes say which rows. (Not so where
// many events with a key are parked or not due yet: those are passed over one by one, or the age would miss what is.)
// `looked`: the oldest due events without a key; the next to fall due, some of which wait for a retry; and events with a
// key, key after key, but for those behind a parked one: they wait for a person, as ParkedEvents says. An event that back-off made wait has been due since `waiting_since`, as for the relay's own
// `oldestSeconds`: by `due_at` alone, an outage would look young, and empty most of the time.
const MEASURE = `
WITH looked AS (
  (SELECT sequence FROM outbox_event WHERE ${DUE} ORDER BY due_at, sequence LIMIT ${LOOKED_AT})
  UNION ALL
  (SELECT sequence FROM outbox_event WHERE state = 'PENDING' AND ordering_key IS NULL AND due_at > now()
   ORDER BY due_at, sequence LIMIT ${LOOKED_AT})
  UNION ALL
  (SELECT sequence FROM outbox_event AS e
   WHERE state <> 'PUBLISHED' AND state = 'PENDING' AND ordering_key IS NOT NULL
     AND coalesce(waiting_since, due_at) <= now() AND NOT EXISTS (
       SELECT FROM outbox_event AS head
       WHERE head.destination = e.destination AND head.ordering_key = e.ordering_key
         AND head.state <> 'PUBLISHED' AND head.state = 'PARKED' AND head.sequence < e.sequence)
   ORDER BY destination, ordering_key, sequence LIMIT ${LOOKED_AT})),
waiting AS (
  SELECT coalesce(waiting_since, due_at) AS since, ordering_key IS NULL AND due_at <= now() AS counted
  FROM outbox_event WHERE sequence = ANY (ARRAY(SELECT sequence FROM looked)) AND state = 'PENDING'),
due AS (SELECT FROM outbox_event WHERE ${DUE} ORDER BY due_at, sequence LIMIT ${COUNTED}),
parked AS (SELECT FROM outbox_event WHERE state = 'PARKED' ORDER BY sequence LIMIT ${COUNTED})
SELECT ((SELECT count(*) FROM due) + count(*) FILTER (WHERE since <= now() AND NOT counted))::int AS backlog,
  greatest(0, coalesce(extract(epoch FROM now() - min(since)), 0))::float8 AS "backlogAgeSeconds",
  (SELECT count(*)::int FROM parked) AS parked,
  pg_stat_get_dead_tuples('outbox_event'::regclass)::float8 AS "deadRows",
  pg_total_relation_size('outbox_event')::float8 AS "tableBytes"
FROM waiting`;

/**
 * Makes the gauge's Lambda handler over a Prisma client. The event's content does not matter. It measures how far behind
 * the relay is, reports it, and returns it.
 */
export function gauge({ prisma }: { readonly prisma: RawClient }) {
  const store = storeOf(prisma);
  return async (_event: unknown, context: Context): Promise<Measured> => {
    nameInvocation(context);
    const measured = await measureBacklog(store);
    report('gauge.measured', { ...measured });
    return measured;
  };
}

/** Measures the backlog in one statement, whose cost does not grow with it. */
export async function measureBacklog(store: Store): Promise<Measured> {
  const [measured] = await store.query<Measured>(MEASURE, []);
  if (!measured) throw new Error('gauge: the database gave no answer');
  return measured;
}
