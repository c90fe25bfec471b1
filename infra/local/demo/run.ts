// One demo, from the build to the last check.

import { CreateQueueCommand } from '@aws-sdk/client-sqs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Pool } from 'pg';
import { DEFAULTS, generate, linesOf, type Line } from '../../../test/data/generate.ts';
import { openDatabase, reachDatabase } from '../database.ts';
import { UsageError } from '../errors.ts';
import { packageService, PROJECT } from '../package.ts';
import { functionOf, startStack, type Stack } from '../stack.ts';
import { ACCOUNT } from '../template.ts';
import { account } from './account.ts';
import { countRows, total, type Rows } from './counts.ts';
import { countDeadLetters, eventQueues, takeDeadLetters } from './destinations.ts';
import { killMidBatch, sendCopies, type Copies, type Kill } from './faults.ts';
import { startFeed, type Feed } from './feed.ts';
import { showProgress } from './progress.ts';
import { checksOf, tableOf, type Result } from './report.ts';
import { settled } from './settled.ts';

/** What was asked for. */
export interface DemoOptions {
  /** Different orders; without it and without `seed` the committed file is played. */
  orders?: number;
  seed?: number;
  faults: boolean;
  nudge: boolean;
  force: boolean;
  /** The result is printed as JSON by the caller. */
  json: boolean;
  databaseUrl: string | undefined;
}

/** A demo in progress. */
export interface Run {
  databaseUrl: string;
  stack: Stack;
  pool: Pool;
  feed: Feed;
  copies: Copies;
  kill: Promise<Kill | undefined>;
  signal: AbortSignal;
}

const GOOD_BATCH = 10;
const UNHEARD = 'unheard';

const say = (text: string) => process.stdout.write(`${text}\n`);

/** Runs the demo and prints what it does and found. Rejects when `signal` is aborted; nothing is left running. */
export async function demo(options: DemoOptions, signal: AbortSignal): Promise<Result> {
  const began = performance.now();
  await using cleanup = new AsyncDisposableStack();
  // Before the build: a mistake in it is said at once.
  if (options.databaseUrl !== undefined) await reachDatabase(options.databaseUrl);
  say('Building the functions and the template …');
  const [lines] = await Promise.all([readLines(options), packageService(signal)]);
  const database = await openDatabase({ url: options.databaseUrl, empty: true, force: options.force });
  cleanup.defer(database.stop);
  say(
    `Database: ${database.place}${options.databaseUrl === undefined ? '' : ' (its outbox and example tables were emptied)'}`,
  );
  const pool = cleanup.adopt(new Pool({ connectionString: database.url, max: 4 }), (pool) => pool.end());
  const run = await start(options, database.url, pool, lines, cleanup, signal);
  const { checks, ...accounted } = await finish(run);
  const seconds = Math.round((performance.now() - began) / 100) / 10;
  const result = { ...accounted, seconds };
  say(`\n${tableOf(result)}\n\nDoes it reconcile?\n${checksOf(checks)}\n`);
  say(
    result.reconciled
      ? `Everything reconciles, after ${seconds} s.`
      : `It does NOT reconcile (${seconds} s).`,
  );
  return result;
}

async function readLines({ orders, seed }: DemoOptions): Promise<Line[]> {
  if (orders === undefined && seed === undefined)
    return linesOf(await readFile(join(PROJECT, 'test', 'data', 'orders.jsonl'), 'utf8'));
  return generate({ orders: orders ?? DEFAULTS.orders, seed: seed ?? DEFAULTS.seed });
}

async function start(
  options: DemoOptions,
  databaseUrl: string,
  pool: Pool,
  lines: Line[],
  cleanup: AsyncDisposableStack,
  signal: AbortSignal,
): Promise<Run> {
  let copies: Copies | undefined;
  const sentBack = Promise.withResolvers<void>();
  const failed = new AbortController();
  const stack = await startStack({
    databaseUrl,
    ...(!options.nudge && { environment: nudgeNobody }),
    // Every further try would end the same way.
    onInitFailed: (error) => failed.abort(new UsageError(error.message)),
    onDelivery: (delivery) => {
      copies?.see(delivery);
      if (delivery.queue === 'StockQueue' && delivery.failed.size > 0) sentBack.resolve();
    },
  });
  cleanup.defer(stack.stop);
  await stack.sqs.send(new CreateQueueCommand({ QueueName: UNHEARD }));
  copies = sendCopies(eventQueues(stack), options.faults);
  const stop = AbortSignal.any([signal, failed.signal]);
  const feed = startFeed(lines, {
    apiUrl: stack.apiUrl,
    pool,
    sentBack: sentBack.promise,
    signal: stop,
  });
  const kill = options.faults ? killRelay(stack, pool, feed, lines.length) : Promise.resolve(undefined);
  return { databaseUrl, stack, pool, feed, copies, kill, signal: stop };
}

/** Nudges go to a queue to which nobody listens. */
const nudgeNobody = (sqsEndpoint: string) => ({
  orders: { OUTBOX_TICK_QUEUE_URL: `${sqsEndpoint}/${ACCOUNT}/${UNHEARD}` },
});

const postsOf = ({ posts }: Feed) => posts.orders.answered + posts.steps.answered;

/** Asks for a good batch at first, and for less and less until half of the posts are answered. */
function killRelay(stack: Stack, pool: Pool, feed: Feed, lines: number): Promise<Kill | undefined> {
  const over = new AbortController();
  feed.finished.finally(() => over.abort()).catch(() => {});
  const relay = functionOf(stack, 'relay');
  const least = () => Math.max(1, Math.round(GOOD_BATCH * (1 - (2 * postsOf(feed)) / lines)));
  return killMidBatch(relay, pool, least, over.signal);
}

async function finish(run: Run) {
  const { stack, pool, feed } = run;
  const began = performance.now();
  const stopShowing = showProgress(async () => {
    const [rows, deadLetters] = await Promise.all([countRows(pool), countDeadLetters(stack)]);
    const seconds = Math.round((performance.now() - began) / 1000);
    const of = (count: keyof Rows) => `${total(rows, count)} ${count}`;
    return `${seconds} s: ${postsOf(feed)} posted, ${of('recorded')}, ${of('published')}, ${total(rows, 'leased')} under lease, ${of('applied')}, ${deadLetters} dead letters`;
  });
  try {
    await feed.finished;
    await settled(run);
  } catch (error) {
    run.signal.throwIfAborted();
    throw error;
  } finally {
    await Promise.allSettled([run.kill, run.copies.sent()]);
    await stopShowing();
  }
  return account(run, await takeDeadLetters(stack));
}
