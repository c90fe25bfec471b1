// Plays the timeline against the API: stock arrives, orders are posted, paid and shipped, each at its time.

import pLimit from 'p-limit';
import type { Pool } from 'pg';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Line, Order, OrderStep, Step, Stock } from '../../../test/data/generate.ts';

/** Posts of one kind. */
export interface Posts {
  /** Answered with 201 or 200. */
  answered: number;
  /** Of those, answered 200: it had been done before. */
  repeated: number;
}

/** What the feed has done so far. */
export interface Feed {
  posts: { orders: Posts; steps: Posts };
  /** The orders the API took, by order id. */
  orders: Map<string, Order>;
  /** The ids of the orders that it took a payment or a shipment for. */
  steps: Record<Step, Set<string>>;
  /** Opening balances and later arrivals. */
  stock: Stock[];
  /** Posts that were answered otherwise, to the end of their tries. */
  refused: ((Order | OrderStep) & { answer: string })[];
  /** When the last line has been played and answered. Rejects when the feed was aborted. */
  finished: Promise<void>;
}

/** Posts in flight at once; a caller's connection pool. */
const POSTS_AT_ONCE = 4;
/** A caller that gets no answer posts again: an order id posted twice is one order. */
const TRIES = 5;

/** Late stock arrives after this even if no order for it has failed. */
const LATEST_MS = 15_000;

/** What the feed needs of its surroundings. */
export interface FeedParts {
  apiUrl: string;
  pool: Pool;
  /** Resolves when a consumer has sent a delivery back for the first time. */
  sentBack: Promise<void>;
  /** Ends the feed. */
  signal: AbortSignal;
}

/** Starts to play. Posts that are due while all are busy wait for one another. */
export function startFeed(lines: Line[], parts: FeedParts): Feed {
  const feed: Feed = {
    posts: { orders: { answered: 0, repeated: 0 }, steps: { answered: 0, repeated: 0 } },
    orders: new Map(),
    steps: { paid: new Set(), shipped: new Set() },
    stock: [],
    refused: [],
    finished: Promise.resolve(),
  };
  feed.finished = play(feed, lines, parts);
  return feed;
}

async function play(feed: Feed, lines: Line[], parts: FeedParts): Promise<void> {
  const post = postInOrder(feed, parts);
  const played: Promise<void>[] = [];
  const began = performance.now();
  let dueMs = 0;
  for (const line of lines) {
    dueMs += line.afterMs;
    const waitMs = dueMs - (performance.now() - began);
    if (waitMs > 0) await sleep(waitMs, undefined, { signal: parts.signal });
    if ('order' in line) played.push(post.order(line.order));
    else if ('step' in line) played.push(post.step(line));
    else if (line.late) played.push(addLate(feed, line.stock, parts, [...played]));
    else await addStock(feed, line.stock, parts.pool);
  }
  await Promise.all(played);
}

/** What must have been answered before a step is posted. */
const BEFORE = { paid: 'placed', shipped: 'paid' } as const;

const answerOf = (step: Step | 'placed', orderId: string) => `${step} ${orderId}`;

/**
 * Posts in the order of the lines, a few at once. A caller pays once the order is answered, and ships once the payment
 * is: until then such a post keeps its place, and what it waits for is before it.
 */
function postInOrder(feed: Feed, parts: FeedParts) {
  const limit = pLimit(POSTS_AT_ONCE);
  const answers = new Map<string, Promise<void>>();
  /** The first answer counts: what is posted again only repeats it. */
  const remember = (name: string, answer: Promise<void>) => {
    if (!answers.has(name)) answers.set(name, answer);
    return answer;
  };
  return {
    order: (order: Order) =>
      remember(
        answerOf('placed', order.orderId),
        limit(() => postOrder(feed, order, parts)),
      ),
    step: (line: OrderStep) => {
      const before = answers.get(answerOf(BEFORE[line.step], line.orderId));
      const answer = limit(async () => {
        await before;
        await postStep(feed, line, parts);
      });
      return remember(answerOf(line.step, line.orderId), answer);
    },
  };
}

async function addStock(feed: Feed, stock: Stock, pool: Pool): Promise<void> {
  await pool.query('INSERT INTO stock_balance (sku, available) VALUES ($1, $2)', [
    stock.sku,
    stock.available,
  ]);
  feed.stock.push(stock);
}

/** While the feed goes on: the orders before it are posted, one has failed, and only then the stock is there. */
async function addLate(
  feed: Feed,
  stock: Stock,
  { pool, sentBack, signal }: FeedParts,
  before: Promise<void>[],
): Promise<void> {
  await Promise.all(before);
  await Promise.race([sentBack, sleep(LATEST_MS, undefined, { ref: false })]);
  if (!signal.aborted) await addStock(feed, stock, pool);
}

async function postOrder(feed: Feed, order: Order, parts: FeedParts): Promise<void> {
  const taken = await post(feed.posts.orders, '/orders', order, parts);
  if (taken === true) feed.orders.set(order.orderId, order);
  else feed.refused.push({ ...order, answer: taken });
}

async function postStep(feed: Feed, { orderId, step }: OrderStep, parts: FeedParts): Promise<void> {
  const path = `/orders/${encodeURIComponent(orderId)}/${step === 'paid' ? 'payment' : 'shipment'}`;
  const taken = await post(feed.posts.steps, path, {}, parts);
  if (taken === true) feed.steps[step].add(orderId);
  else feed.refused.push({ orderId, step, answer: taken });
}

/** Posts until it is taken. Never rejects: true, or the last answer when it was refused in the end. */
async function post(
  posts: Posts,
  path: string,
  body: object,
  { apiUrl, signal }: FeedParts,
): Promise<true | string> {
  let answer = '';
  for (let attempt = 1; attempt <= TRIES && !signal.aborted; attempt++) {
    const { status, text } = await ask(apiUrl + path, body, signal);
    answer = `${status} ${text}`;
    if (status === 200 || status === 201) {
      posts.answered++;
      if (status === 200) posts.repeated++;
      return true;
    }
    if (status >= 400 && status < 500) break;
    await sleep(200 * attempt);
  }
  return answer;
}

/** Status 0: no answer came. */
async function ask(
  url: string,
  body: object,
  signal: AbortSignal,
): Promise<{ status: number; text: string }> {
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal,
    });
    return { status: response.status, text: await response.text() };
  } catch (error) {
    return { status: 0, text: String(error) };
  }
}
