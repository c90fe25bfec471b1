// The story of two pods and one row, told four ways. Each strategy is a pod's turn at one poll window.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Pool, PoolClient } from 'pg';
import { relayConfig } from '../../../functions/relay/config.ts';
import { partsOf } from '../../../functions/relay/relay.ts';
import { tick } from '../../../functions/relay/tick.ts';
import { countdown } from '../../../functions/shared/deadline.ts';
import { INSERT_OUTBOX } from './contender.ts';
import { pgClient } from '../harness/pg-client.ts';

/** What pods did, together. */
export interface RaceCounts {
  /** Rows that were read or claimed. */
  read: number;
  /** Sends. */
  sent: number;
  /** Times a pod worked on a row that another one had. */
  collided: number;
  /** Rows put off by five minutes. */
  delayed: number;
}

/** One way to share a table. */
export interface Strategy {
  /** Tables and rows. */
  prepare(pool: Pool, rows: number): Promise<void>;
  /** What one pod does in one window. @returns whether it found anything. */
  turn(pod: Pool, counts: RaceCounts): Promise<boolean>;
  /** Rows that are not done. */
  readonly left: string;
  /** Puts the clock five minutes on, for those that a back-off holds. */
  readonly forward?: string;
}

const READ_LIMIT = 100;
/** What it takes to send one event. */
const SEND_MS = 1;

const prepareEvents = async (pool: Pool, rows: number) => {
  await pool.query(`CREATE TABLE event (id int PRIMARY KEY, status text NOT NULL, version int NOT NULL DEFAULT 0,
    due_at timestamptz NOT NULL DEFAULT now());
    CREATE INDEX event_due ON event (due_at, id) WHERE status = 'UNPROCESSED';
    CREATE TABLE processed (event_id int PRIMARY KEY)`);
  await pool.query(
    `INSERT INTO event (id, status) SELECT n, 'UNPROCESSED' FROM generate_series(1, $1::int) AS n`,
    [rows],
  );
};

const DUE = `SELECT id, version FROM event WHERE status = 'UNPROCESSED' AND due_at <= now() ORDER BY due_at, id LIMIT ${READ_LIMIT}`;
const LEFT = `SELECT count(*)::int AS n FROM event WHERE status <> 'PROCESSED'`;

async function send(counts: RaceCounts): Promise<void> {
  counts.sent += 1;
  await sleep(SEND_MS);
}

/** Reads due rows and takes them one after another; `take` answers whether the row was its own. */
const eachDue =
  (take: (pod: Pool, id: number, version: number, counts: RaceCounts) => Promise<boolean>) =>
  async (pod: Pool, counts: RaceCounts): Promise<boolean> => {
    const { rows } = await pod.query<{ id: number; version: number }>(DUE);
    counts.read += rows.length;
    for (const { id, version } of rows) if (!(await take(pod, id, version, counts))) counts.collided += 1;
    return rows.length > 0;
  };

/** Reads the status, then writes it: whoever comes second meets a unique constraint, and waits five minutes for it. */
const checkThenAct: Strategy = {
  prepare: prepareEvents,
  left: LEFT,
  forward: `UPDATE event SET due_at = due_at - interval '5 minutes' WHERE status = 'UNPROCESSED' AND due_at > now()`,
  turn: eachDue(async (pod, id, _version, counts) => {
    try {
      await keepingConnection(pod, 'INSERT INTO processed VALUES ($1)', [id]);
    } catch {
      await pod.query(
        `UPDATE event SET status = 'UNPROCESSED', due_at = now() + interval '5 minutes' WHERE id = $1`,
        [id],
      );
      counts.delayed += 1;
      return false;
    }
    await send(counts);
    await pod.query(`UPDATE event SET status = 'PROCESSED' WHERE id = $1`, [id]);
    return true;
  }),
};

/** Locks each row before it looks at it, and holds the lock while it sends. */
const pessimistic: Strategy = {
  prepare: prepareEvents,
  left: LEFT,
  turn: eachDue((pod, id, _version, counts) =>
    inTransaction(pod, async (client) => {
      const { rows } = await client.query<{ status: string }>(
        'SELECT status FROM event WHERE id = $1 FOR UPDATE',
        [id],
      );
      if (rows[0]?.status !== 'UNPROCESSED') return false;
      await send(counts);
      await client.query(`UPDATE event SET status = 'PROCESSED' WHERE id = $1`, [id]);
      return true;
    }),
  ),
};

/** Takes a row only at the version it has read. */
const optimistic: Strategy = {
  prepare: prepareEvents,
  left: LEFT,
  turn: eachDue(async (pod, id, version, counts) => {
    const taken = await pod.query(
      `UPDATE event SET status = 'PROCESSING', version = version + 1 WHERE id = $1 AND version = $2`,
      [id, version],
    );
    if (taken.rowCount === 0) return false;
    await send(counts);
    await pod.query(`UPDATE event SET status = 'PROCESSED' WHERE id = $1`, [id]);
    return true;
  }),
};

/** Our engine: one tick of the relay, with a queue that takes a millisecond an event. */
const ours: Strategy = {
  prepare: async (pool, rows) => void (await pool.query(INSERT_OUTBOX, [rows])),
  left: `SELECT count(*)::int AS n FROM outbox_event WHERE state <> 'PUBLISHED'`,
  turn: async (pod, counts) => {
    const { client } = pgClient(pod);
    const config = relayConfig({
      DATABASE_URL: 'postgresql://unused',
      OUTBOX_DESTINATIONS: '{"stock":{"kind":"sqs","queueUrl":"http://127.0.0.1/unused"}}',
      OUTBOX_CALLS_IN_FLIGHT: '1',
      OUTBOX_CLAIMS_UNDERWAY: '1',
    });
    const sender = {
      maxEntries: 10,
      maxBytes: 1_048_576,
      contentErrors: new Set<string>(),
      write: () => ({ message: '', bytes: 1 }),
      call: async (messages: readonly unknown[]) => {
        counts.sent += messages.length;
        await sleep(SEND_MS * messages.length);
        return messages.map(() => ({ kind: 'published', messageId: '1' }) as const);
      },
    };
    const parts = {
      ...partsOf(client, config),
      senders: new Map([['stock', sender]]),
      report: () => undefined,
    };
    const { claimed, fencedOut } = await tick(parts, countdown(20_000));
    counts.read += claimed;
    counts.collided += fencedOut;
    return claimed > 0;
  },
};

/** pg's pool closes a connection whose statement failed; other stacks go on with it. */
async function keepingConnection(pool: Pool, text: string, values: unknown[]): Promise<void> {
  const client = await pool.connect();
  try {
    await client.query(text, values);
  } finally {
    client.release();
  }
}

async function inTransaction(pool: Pool, body: (client: PoolClient) => Promise<boolean>): Promise<boolean> {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    return await body(client);
  } finally {
    await client.query('COMMIT');
    client.release();
  }
}

/** By name, as the table shows them. */
export const STRATEGIES: Readonly<Record<string, Strategy>> = {
  'check, then act, back off 5 min': checkThenAct,
  'pessimistic row lock': pessimistic,
  'optimistic version': optimistic,
  ours,
};
