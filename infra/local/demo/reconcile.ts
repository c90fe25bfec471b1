// Does the database say what the orders say?

import { Client } from 'pg';
import type { DeadLetter } from './destinations.ts';
import type { Feed } from './feed.ts';
import { QUESTIONS, TABLES } from './questions.ts';

/** One question, and the rows that answer it with no. */
export interface Check {
  question: string;
  differing: Record<string, unknown>[];
}

/** What the demo posted and added. */
export type Fed = Pick<Feed, 'orders' | 'steps' | 'stock'>;

/** Asks every question, on a connection of its own. The database reconciles when no check has a differing row. */
export async function reconcile(databaseUrl: string, fed: Fed, deadLetters: DeadLetter[]): Promise<Check[]> {
  const client = new Client(databaseUrl);
  await client.connect();
  try {
    await fill(client, 'posted', postedOrders(fed));
    await fill(client, 'posted_step', postedSteps(fed));
    await fill(client, 'opening', fed.stock);
    await fill(client, 'dead_letter', deadLetters.map(deadLetterOf));
    const checks: Check[] = [];
    for (const [question, statement] of Object.entries(QUESTIONS)) {
      const { rows } = await client.query<Record<string, unknown>>(statement);
      checks.push({ question, differing: rows });
    }
    return checks;
  } finally {
    await client.end();
  }
}

/** Text of JSON cannot hold U+0000, but everything else the demo posts goes through it unchanged. */
async function fill(client: Client, table: keyof typeof TABLES, rows: object[]): Promise<void> {
  await client.query(`CREATE TEMP TABLE ${table} (${TABLES[table]})`);
  await client.query(`INSERT INTO ${table} SELECT * FROM json_populate_recordset(NULL::${table}, $1)`, [
    JSON.stringify(rows),
  ]);
  // Without figures the planner would join thousands of rows as if they were a few.
  await client.query(`ANALYZE ${table}`);
}

function postedOrders({ orders, steps: { paid, shipped } }: Fed): object[] {
  const statusOf = (id: string) => (shipped.has(id) ? 'shipped' : paid.has(id) ? 'paid' : 'placed');
  return [...orders.values()].map(({ orderId: id, ...rest }) => ({ id, ...rest, status: statusOf(id) }));
}

function postedSteps({ orders, steps }: Fed): object[] {
  const all = { placed: orders.keys(), paid: steps.paid, shipped: steps.shipped };
  return Object.entries(all).flatMap(([step, ids]) =>
    [...ids].map((orderId) => ({ order_id: orderId, step })),
  );
}

/** A dead letter's event; the queue holds a message twice when it was delivered twice. */
function deadLetterOf({ destination, message: { Body = '', MessageAttributes } }: DeadLetter): object {
  const { id, source } = JSON.parse(Body) as { id: string; source: string };
  const reason = MessageAttributes?.['outbox-reason']?.StringValue ?? null;
  return { event_id: id, source, destination, reason };
}
