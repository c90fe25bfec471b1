// What has happened so far, from the database and from the functions' lines.

import type { Pool } from 'pg';
import type { LogLine } from '../sandbox.ts';
import { DESTINATIONS, type DestinationName } from './destinations.ts';

/** Rows of one destination, as the database has them: an event that goes to two is recorded in two. */
export interface Rows {
  recorded: number;
  published: number;
  parked: number;
  pending: number;
  leased: number;
  applied: number;
}

/** Rows by destination. */
export type RowsByDestination = Record<DestinationName, Rows>;

/** Of the orders that have a history, how many have it in order: placed, then paid, then shipped. */
export interface Histories {
  inOrder: number;
  of: number;
  /** Entries of all histories. */
  steps: number;
}

/** What only the functions know, added up over their lines. A killed relay's last line is missing. */
export interface Reported {
  fencedOut: number;
  duplicates: number;
  retried: number;
}

/** Latency from recording to effect, in milliseconds. */
export interface Latency {
  p50: number | null;
  p99: number | null;
}

const ROWS = `
  SELECT destination,
         count(*)::int                                      AS recorded,
         (count(*) FILTER (WHERE state = 'PUBLISHED'))::int AS published,
         (count(*) FILTER (WHERE state = 'PARKED'))::int    AS parked,
         (count(*) FILTER (WHERE state = 'PENDING'))::int   AS pending,
         (count(*) FILTER (WHERE lease_until > now()))::int AS leased,
         (SELECT count(*)::int FROM applied_event WHERE consumer = destination) AS applied
    FROM outbox_event GROUP BY destination`;

const LATENCY = `
  SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY ms)  AS p50,
         percentile_cont(0.99) WITHIN GROUP (ORDER BY ms) AS p99
    FROM (SELECT extract(epoch FROM a.applied_at - e.recorded_at)::float8 * 1000 AS ms
            FROM applied_event a
            JOIN outbox_event e ON e.event_id = a.event_id AND e.source = a.source AND e.destination = a.consumer
           WHERE $1 OR e.attempts = 1) AS latency`;

const HISTORIES = `
  SELECT count(*)::int AS of, coalesce(sum(steps), 0)::int AS steps, (count(*) FILTER (WHERE in_order))::int AS "inOrder"
    FROM (SELECT count(*) AS steps,
                 array_agg(step ORDER BY position) = (ARRAY['placed', 'paid', 'shipped'])[:count(*)::int] AS in_order
            FROM order_history GROUP BY order_id) AS history`;

const PARKED = `SELECT park_reason AS reason FROM outbox_event WHERE state = 'PARKED'`;

const NONE: Rows = { recorded: 0, published: 0, parked: 0, pending: 0, leased: 0, applied: 0 };

/** Counts rows. */
export async function countRows(pool: Pool): Promise<RowsByDestination> {
  const { rows } = await pool.query<Rows & { destination: string }>(ROWS);
  const found = Object.fromEntries(rows.map(({ destination, ...counts }) => [destination, counts]));
  const entries = DESTINATIONS.map((name) => [name, found[name] ?? NONE]);
  return Object.fromEntries(entries) as RowsByDestination;
}

/** One count over all destinations. */
export const total = (rows: RowsByDestination, count: keyof Rows): number =>
  Object.values(rows).reduce((sum, each) => sum + each[count], 0);

/** Counts histories. */
export async function countHistories(pool: Pool): Promise<Histories> {
  const { rows } = await pool.query<Histories>(HISTORIES);
  return rows[0] ?? { inOrder: 0, of: 0, steps: 0 };
}

/** Latency of all events, or of those that were claimed once only. Null when nothing was applied. */
export async function latency(pool: Pool, which: 'all' | 'claimed once'): Promise<Latency> {
  const { rows } = await pool.query<Latency>(LATENCY, [which === 'all']);
  return { p50: rounded(rows[0]?.p50), p99: rounded(rows[0]?.p99) };
}

const rounded = (ms: number | null | undefined) => (typeof ms === 'number' ? Math.round(ms) : null);

/** Why events were parked. */
export async function parkReasons(pool: Pool): Promise<string[]> {
  const { rows } = await pool.query<{ reason: string }>(PARKED);
  return rows.map(({ reason }) => reason);
}

/** Adds up `relay.tick` and `consumer.batch` lines. */
export function addUp(lines: LogLine[]): Reported {
  const of = (event: string, field: string) =>
    lines
      .filter(({ json }) => json?.['event'] === event)
      .reduce((sum, { json }) => sum + Number(json?.[field] ?? 0), 0);
  return {
    fencedOut: of('relay.tick', 'fencedOut'),
    duplicates: of('consumer.batch', 'duplicates'),
    retried: of('consumer.batch', 'retried'),
  };
}

/** How often each kind of reason occurs: what stands before its colon, the kind of error that carries it left out. */
export function tally(reasons: string[]): Record<string, number> {
  const kinds = Map.groupBy(reasons, (reason) => /^(?:\w*Error: )?([^:]*)/.exec(reason)?.[1] ?? reason);
  return Object.fromEntries([...kinds].map(([kind, all]) => [kind, all.length]));
}
