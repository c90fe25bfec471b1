// Everything that is known at the end, counted and reconciled.

import type { Message } from '@aws-sdk/client-sqs';
import type { Pool } from 'pg';
import { functionOf } from '../stack.ts';
import { addUp, countHistories, countRows, latency, parkReasons, tally, total } from './counts.ts';
import type { DeadLetter } from './destinations.ts';
import type { Feed } from './feed.ts';
import { reconcile, type Check } from './reconcile.ts';
import type { Result } from './report.ts';
import type { Run } from './run.ts';

/** Counts, reconciles, and stops the stack: only then have all lines of the functions been read. */
export async function account(
  { databaseUrl, stack, pool, feed, copies, kill }: Run,
  deadLetters: DeadLetter[],
): Promise<Omit<Result, 'seconds'> & { checks: Check[] }> {
  const checks = [everyPostAnswered(feed), ...(await reconcile(databaseUrl, feed, deadLetters))];
  const known = await inDatabase(pool);
  const reasons = reasonsOf(deadLetters);
  await stack.stop();
  return {
    ...postsOf(feed),
    ...known,
    ...addUp(stack.lines),
    copies: copies.count(),
    deadLettered: reasons.length,
    deadLetterReasons: tally(reasons),
    relaysAtOnce: functionOf(stack, 'relay').mostAtOnce(),
    killed: (await kill) ?? null,
    reconciled: checks.every(({ differing }) => differing.length === 0),
    checks,
  };
}

function postsOf({ posts: { orders, steps }, ...feed }: Feed) {
  const { paid, shipped } = feed.steps;
  return {
    orders: { posted: orders.answered, different: feed.orders.size, repeated: orders.repeated },
    steps: { posted: steps.answered, paid: paid.size, shipped: shipped.size, repeated: steps.repeated },
  };
}

async function inDatabase(pool: Pool) {
  const destinations = await countRows(pool);
  const parked = await parkReasons(pool);
  return {
    recorded: total(destinations, 'recorded'),
    published: total(destinations, 'published'),
    applied: total(destinations, 'applied'),
    parked: parked.length,
    parkReasons: tally(parked),
    destinations,
    histories: await countHistories(pool),
    latencyMs: await latency(pool, 'all'),
    latencyClaimedOnceMs: await latency(pool, 'claimed once'),
  };
}

const everyPostAnswered = (feed: Feed): Check => ({
  question: 'Every post was answered with 201 or 200 in the end',
  differing: feed.refused.map((refusal) => ({ ...refusal })),
});

/** Each dead-lettered event's reason; the queue holds a message twice when it was delivered twice. */
function reasonsOf(deadLetters: DeadLetter[]): string[] {
  const reasons = deadLetters.map(({ destination, message }): [string, string] => [
    `${destination} ${eventOf(message)}`,
    reason(message),
  ]);
  return [...new Map(reasons).values()];
}

const eventOf = ({ Body = '' }: Message) => (JSON.parse(Body) as { id: string }).id;
const reason = ({ MessageAttributes }: Message) =>
  MessageAttributes?.['outbox-reason']?.StringValue ?? 'received too often';
