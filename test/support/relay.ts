// A relay put together by hand: short leases, chance and tokens of the test's choosing, the scripted endpoint.
// This file knows nothing of Vitest, so programs run by `startProcess` can use it too.

import type { SQSClientConfig } from '@aws-sdk/client-sqs';
import { randomUUID } from 'node:crypto';
import pLimit from 'p-limit';
import type { ClaimedEvent, Lease } from '../../functions/relay/claim.ts';
import { claimDue } from '../../functions/relay/claim.ts';
import type { RelayConfig } from '../../functions/relay/config.ts';
import type { Destination } from '../../functions/relay/destination.ts';
import { eventBridgeSender } from '../../functions/relay/eventbridge.ts';
import type { RelayParts } from '../../functions/relay/parts.ts';
import type { Sender } from '../../functions/relay/sender.ts';
import { sqsSender } from '../../functions/relay/sqs.ts';
import { storeOf, type RawClient, type Store } from '../../functions/shared/store.ts';
import type { TestDatabase } from './database.ts';
import type { ScriptedSqs } from './scripted-sqs.ts';

const MAX_BYTES = 1_048_576;

/** A destination for each of these queues of the endpoint, by the queue's name. */
export const destinationsOf = (sqs: ScriptedSqs, ...queues: string[]): Record<string, Destination> =>
  Object.fromEntries(
    queues.map((queue) => [
      queue,
      { kind: 'sqs', queueUrl: sqs.queueUrl(queue), maxBytes: MAX_BYTES, parkedHead: 'hold' },
    ]),
  );

/** The relay's own defaults, which `settings` override. Nothing is checked: a lease may be shorter than the function. */
export const relaySettings = (
  destinations: Record<string, Destination>,
  settings: Partial<RelayConfig> = {},
): RelayConfig => ({
  databaseUrl: 'postgresql://unused',
  poolSize: 5,
  destinations,
  backlogLateSeconds: 300,
  functionTimeoutSeconds: 25,
  leaseSeconds: 30,
  claimLimit: 100,
  claimBytes: 8_388_608,
  claimsUnderway: 4,
  callsInFlight: 16,
  callTimeoutSeconds: 5,
  maxAttempts: 10,
  backoffBaseSeconds: 1,
  backoffMaxSeconds: 300,
  keepPublished: true,
  ...settings,
});

/** What a relay has reported. */
export type Reported = Record<string, unknown> & { event: string };

/** Parts of a relay to the queue 'stock'; back-offs without jitter, so one base long at first. */
export function relayParts(
  prisma: RawClient,
  sqs: ScriptedSqs,
  {
    destinations = destinationsOf(sqs, 'stock'),
    ...settings
  }: Partial<RelayConfig> & { destinations?: Record<string, Destination> } = {},
): RelayParts & { reported: Reported[] } {
  const config = relaySettings(destinations, settings);
  const limit = pLimit(config.callsInFlight);
  const reported: Reported[] = [];
  return {
    store: storeOf(prisma),
    senders: sendersOf(sqs, destinations),
    keyCursors: new Map(),
    config,
    report: (event, fields) => reported.push({ ...fields, event }),
    reported,
    calls: (call) => limit(call),
    random: () => 0,
    newToken: randomUUID,
  };
}

/** A sender for each destination, over the scripted endpoint. */
export function sendersOf(
  sqs: ScriptedSqs,
  destinations: Record<string, Destination>,
  config?: SQSClientConfig,
): Map<string, Sender> {
  const client = sqs.client(config);
  return new Map(
    Object.entries(destinations).map(([name, destination]): [string, Sender] => [
      name,
      destination.kind === 'sqs' ? sqsSender(client, destination) : eventBridgeSender(destination),
    ]),
  );
}

/** Claims up to ten rows without an ordering key for 30 s under a fresh token, unless told otherwise. */
export const claimSome = (
  store: Store,
  {
    token = randomUUID(),
    leaseSeconds = 30,
    limit = 10,
    bytes = 8_388_608,
    dueFrom = null,
  }: Partial<Lease> & {
    limit?: number;
    bytes?: number;
    dueFrom?: number | null;
  } = {},
): ReturnType<typeof claimDue> => claimDue(store, { token, leaseSeconds }, { limit, bytes, dueFrom });

/** An outbox row as a test looks at it. Times are seconds from now by the database's clock. */
export type OutboxRow = {
  sequence: bigint;
  eventId: string;
  destination: string;
  state: 'PENDING' | 'PUBLISHED' | 'PARKED';
  attempts: number;
  releases: number;
  claimToken: string | null;
  leaseInSeconds: number | null;
  dueInSeconds: number;
  publishedInSeconds: number | null;
  messageId: string | null;
  parkReason: string | null;
  lastError: string | null;
};

/** Every outbox row, in order of sequence. */
export async function outboxRows(db: TestDatabase): Promise<OutboxRow[]> {
  const rows = await db.sql<Omit<OutboxRow, 'sequence'> & { sequence: number }>(`
    SELECT sequence, event_id AS "eventId", destination, state, attempts, releases, claim_token AS "claimToken",
      extract(epoch FROM lease_until - clock_timestamp())::float8 AS "leaseInSeconds",
      extract(epoch FROM due_at - clock_timestamp())::float8 AS "dueInSeconds",
      extract(epoch FROM published_at - clock_timestamp())::float8 AS "publishedInSeconds",
      message_id AS "messageId", park_reason AS "parkReason", last_error AS "lastError"
    FROM outbox_event ORDER BY sequence`);
  return rows.map((row) => ({ ...row, sequence: BigInt(row.sequence) }));
}

/** One row's columns, found by sequence. */
export async function outboxRow(db: TestDatabase, sequence: bigint | undefined): Promise<OutboxRow> {
  const row = (await outboxRows(db)).find((each) => each.sequence === sequence);
  if (!row) throw new Error(`no row ${sequence}`);
  return row;
}

/** How many rows are in each state; states without rows are absent. */
export async function stateCounts(db: TestDatabase): Promise<Record<string, number>> {
  const rows = await db.sql<{ state: string; n: number }>(
    'SELECT state, count(*) AS n FROM outbox_event GROUP BY state',
  );
  return Object.fromEntries(rows.map(({ state, n }) => [state, n]));
}

/** Time passes for every lease: all of them have just run out. */
export const expireLeases = (db: TestDatabase): Promise<unknown> =>
  db.sql(
    "UPDATE outbox_event SET lease_until = clock_timestamp() - interval '1 millisecond' WHERE lease_until IS NOT NULL",
  );

/** Time passes for every back-off: all pending rows are due. */
export const endBackoffs = (db: TestDatabase): Promise<unknown> =>
  db.sql("UPDATE outbox_event SET due_at = clock_timestamp() WHERE state = 'PENDING' AND due_at > now()");

/** A claimed event that no row stands behind, for functions that touch no database. */
export const claimedEvent = (overrides: Partial<ClaimedEvent> = {}): ClaimedEvent => ({
  sequence: 1n,
  eventId: randomUUID(),
  destination: 'stock',
  source: '/orders',
  type: 'order.placed',
  orderingKey: null,
  payload: '{}',
  recordedAt: '2026-01-01T00:00:00.000000Z',
  dueTime: null,
  dueAt: 0,
  waitingSince: 0,
  ageSeconds: 0,
  attempts: 1,
  releases: 0,
  replays: 0,
  lastError: null,
  traceParent: null,
  ...overrides,
});

/** The event ids that a queue has stored, in order of arrival, repeated ones too. */
export const storedIds = (sqs: ScriptedSqs, queue = 'stock'): string[] =>
  sqs.stored(queue).map(({ body }) => idOfBody(body));

/** The CloudEvents id of a message body. */
export const idOfBody = (body: string): string => (JSON.parse(body) as { id: string }).id;
