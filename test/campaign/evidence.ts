// Everything that the checker looks at: the database and the contents of the queues, and nothing else.

import type { StoredMessage } from '../support/scripted-sqs.ts';
import type { Step } from './effects.ts';
import { MOVED } from './errands.ts';
import { DEAD_LETTERS, FIFO, QUEUES, STANDARD, type DestinationName, type PlannedEvent } from './program.ts';
import { ONLOOKER, type World } from './world.ts';

/** An event of a committed transaction, as the business table has it. */
export type Committed = PlannedEvent & { readonly step: Step };

export interface Row {
  readonly id: string;
  readonly destination: DestinationName;
  readonly key: string | null;
  readonly state: 'PENDING' | 'PUBLISHED' | 'PARKED';
  readonly attempts: number;
  readonly held: boolean;
  readonly messageId: string | null;
  readonly reason: string | null;
}

export interface Applied {
  readonly consumer: string;
  readonly id: string;
}

/** A message that a queue accepted at some time. */
export interface Arrival {
  readonly id: string;
  readonly messageId: string;
  readonly body: { id: string; source: string; type: string; partitionkey?: string; data: unknown };
  /** It came from the dead-letter queue, not from a relay. */
  readonly moved: boolean;
  readonly gone: boolean;
}

/** Everything that the checker looks at. */
export interface Evidence {
  readonly calm: boolean;
  readonly hold: boolean;
  readonly maxAttempts: number;
  readonly committed: ReadonlyMap<string, Committed>;
  readonly rows: readonly Row[];
  readonly arrivals: Readonly<Record<DestinationName | typeof DEAD_LETTERS, readonly Arrival[]>>;
  readonly effects: readonly Applied[];
  readonly ledger: readonly Applied[];
  /** Event ids by ordering key, in order of commit. */
  readonly order: ReadonlyMap<string, readonly string[]>;
  readonly openTransactions: number;
  readonly locks: number;
}

/** Reads it, once everything is at rest. */
export async function gather(world: World): Promise<Evidence> {
  const { sql, sqs, program } = world;
  const business = await sql<{ events: Committed[] }>('SELECT events FROM business');
  const order = await sql<{ key: string; ids: string[] }>(
    'SELECT ordering_key AS key, array_agg(event_id::text ORDER BY position) AS ids FROM key_order GROUP BY 1',
  );
  const applied = (table: string) => sql<Applied>(`SELECT consumer, event_id::text AS id FROM ${table}`);
  const arrivals = (queue: string) => sqs.stored(queue).map(arrivalOf);
  return {
    calm: program.calm,
    hold: program.settings.parkedHead === 'hold',
    maxAttempts: program.settings.maxAttempts,
    committed: new Map(business.flatMap(({ events }) => events).map((event) => [event.id, event])),
    rows: await sql<Row & Record<string, unknown>>(
      `SELECT event_id::text AS id, destination, ordering_key AS key, state, attempts, claim_token IS NOT NULL AS held,
         message_id AS "messageId", park_reason AS reason FROM outbox_event ORDER BY sequence`,
    ),
    arrivals: {
      [STANDARD]: arrivals(QUEUES[STANDARD]),
      [FIFO]: arrivals(QUEUES[FIFO]),
      [DEAD_LETTERS]: arrivals(DEAD_LETTERS),
    },
    effects: await applied('effect ORDER BY position'),
    ledger: await applied('applied_event'),
    order: new Map(order.map(({ key, ids }) => [key, ids])),
    ...(await sessionsLeft(world)),
  };
}

const arrivalOf = ({ messageId, body, attributes, deleted }: StoredMessage): Arrival => {
  const parsed = JSON.parse(body) as Arrival['body'];
  return { id: parsed.id, messageId, body: parsed, moved: MOVED in attributes, gone: deleted };
};

/** Transactions and locks of relays, consumers and producers that somebody left behind. */
export async function sessionsLeft({ sql }: World): Promise<Pick<Evidence, 'openTransactions' | 'locks'>> {
  const [left] = await sql<{ open: number; locks: number }>(
    `SELECT (SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database() AND xact_start IS NOT NULL
               AND backend_type = 'client backend' AND application_name <> '${ONLOOKER}') AS open,
            (SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory'
               AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) AS locks`,
  );
  return { openTransactions: left?.open ?? 0, locks: left?.locks ?? 0 };
}
