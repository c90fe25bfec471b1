// What goes wrong on purpose: a relay killed in mid-batch, and messages that arrive twice.

import type { SQSRecord } from 'aws-lambda';
import type { Pool } from 'pg';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Delivery } from '../event-source.ts';
import type { LocalFunction } from '../function.ts';
import type { LocalQueue, OutgoingMessage } from '../queue.ts';

/** A relay that was killed, and how many events it left under its lease. */
export interface Kill {
  pid: number;
  events: number;
}

/** Every how many first deliveries one is sent again. */
const COPY_EVERY = 20;
/** Always sent again: the order whose stock goes from 10 to 8 once. */
const COPY_ALWAYS = 'SKU-17';
const LOOK_EVERY_MS = 3;
/** Long enough for a settle that the database had already got when the relay was killed. */
const SETTLED_MS = 500;

const LEASED = `
  SELECT array_agg(DISTINCT claim_token) AS tokens, count(*)::int AS events
    FROM outbox_event WHERE lease_until > now()`;
const STILL_LEASED = `
  SELECT count(*)::int AS events FROM outbox_event WHERE lease_until > now() AND claim_token = ANY($1)`;

/**
 * Waits until a relay is busy and has `least` events under lease, and kills it; again, until a kill has left events
 * behind. A relay that had just finished leaves none.
 *
 * @param least events that make a batch; asked again and again, so it may come down
 * @returns the kill, or undefined when `signal` came first
 */
export async function killMidBatch(
  relay: LocalFunction,
  pool: Pool,
  least: () => number,
  signal: AbortSignal,
): Promise<Kill | undefined> {
  while (!signal.aborted) {
    const [victim, ...others] = relay.busy();
    const { tokens, events } = victim ? await leased(pool) : { tokens: null, events: 0 };
    // With one relay busy, the leases are its own.
    if (!victim || others.length > 0 || events < least() || !relay.busy().includes(victim)) {
      await sleep(LOOK_EVERY_MS);
      continue;
    }
    await victim.kill();
    await sleep(SETTLED_MS);
    const left = await pool.query<{ events: number }>(STILL_LEASED, [tokens]);
    if (left.rows[0]?.events) return { pid: victim.pid, events: left.rows[0].events };
  }
  return undefined;
}

async function leased(pool: Pool): Promise<{ tokens: string[] | null; events: number }> {
  const { rows } = await pool.query<{ tokens: string[] | null; events: number }>(LEASED);
  return rows[0] ?? { tokens: null, events: 0 };
}

/** Sends real messages again, as they were delivered. */
export interface Copies {
  /** Looks at a delivery and picks what to send again. */
  see(delivery: Delivery): void;
  /** Messages sent again so far. */
  count(): number;
  /** Resolves when the last one has been sent. */
  sent(): Promise<void>;
}

/** Makes the sender of copies for these queues; `enabled` false makes one that sends none. */
export function sendCopies(queues: LocalQueue[], enabled: boolean): Copies {
  const copied = new Set<string>();
  const sending: Promise<void>[] = [];
  let seen = 0;
  return {
    see: ({ queue: id, records }) => {
      const queue = queues.find((each) => each.id === id);
      if (!enabled || !queue) return;
      for (const record of records) {
        seen++;
        const isDue = seen % COPY_EVERY === 0 || record.body.includes(`"${COPY_ALWAYS}"`);
        const message = `${id} ${record.body}`;
        if (!isDue || copied.has(message)) continue;
        copied.add(message);
        const sent = queue.send([copyOf(record)]);
        // Whether it failed is asked for at the end.
        sent.catch(() => {});
        sending.push(sent);
      }
    },
    count: () => copied.size,
    sent: async () => void (await Promise.all(sending)),
  };
}

/** Of a FIFO queue: in the same group, and under another deduplication id, or the queue itself would drop it. */
function copyOf({ body, messageId, attributes }: SQSRecord): OutgoingMessage {
  const { MessageGroupId: groupId, MessageDeduplicationId } = attributes;
  if (groupId === undefined || MessageDeduplicationId === undefined) return { body };
  return { body, groupId, deduplicationId: `copy-of-${messageId}` };
}
