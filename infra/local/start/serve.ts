// The stack that stays up.

import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Pool } from 'pg';
import { aborted } from '../cli.ts';
import { openDatabase, reachDatabase, type LocalDatabase } from '../database.ts';
import { packageService, PROJECT } from '../package.ts';
import { freePort } from '../postgres.ts';
import { startStack, type Stack } from '../stack.ts';
import { display } from './display.ts';
import { rebuildOnChange } from './rebuild.ts';
import { readSteps } from './steps.ts';

/** What was asked for. */
export interface ServeOptions {
  port?: number;
  reset: boolean;
  force: boolean;
  databaseUrl: string | undefined;
}

const LOCAL = join(PROJECT, '.local');
/** The same ones each time, if they are free: a client's settings then outlive a restart. */
const PREFERRED = { api: 3000, postgres: 54_329 };

const SEED = `
  INSERT INTO stock_balance (sku, available)
  SELECT * FROM (VALUES ('SKU-17', 10), ('SKU-18', 1000), ('SKU-19', 1)) AS seed (sku, available)
   WHERE NOT EXISTS (SELECT FROM stock_balance)
  RETURNING sku, available`;

const say = (text: string) => process.stdout.write(`${text}\n`);

/** Runs until `signal` is aborted, then stops everything in order. Throws when something does not start. */
export async function serve(options: ServeOptions, signal: AbortSignal): Promise<void> {
  await using cleanup = new AsyncDisposableStack();
  if (options.databaseUrl !== undefined) await reachDatabase(options.databaseUrl);
  say('Building the functions and the template …');
  await packageService(signal);
  const database = await openDatabase({
    url: options.databaseUrl,
    directory: join(LOCAL, 'postgres'),
    port: await freePort(PREFERRED.postgres),
    empty: options.reset,
    force: options.force,
  });
  cleanup.defer(database.stop);
  const pool = cleanup.adopt(new Pool({ connectionString: database.url, max: 2 }), (pool) => pool.end());
  const seeded = await pool.query<{ sku: string; available: number }>(SEED);
  const stack = await startShown(options, database.url, pool, cleanup);
  cleanup.adopt(rebuildOnChange(stack, say), (watcher) => watcher.stop());
  say(welcome(stack, database, seeded.rows));
  await aborted(signal).catch(() => {});
  say('\nStopping …');
  await cleanup.disposeAsync();
  say('Stopped. The data is kept; --reset begins anew.');
}

/** The stack, with everything it does shown. */
async function startShown(
  options: ServeOptions,
  databaseUrl: string,
  pool: Pool,
  cleanup: AsyncDisposableStack,
): Promise<Stack> {
  const queueDirectory = queueFolder(options.databaseUrl);
  if (options.reset) await rm(queueDirectory, { recursive: true, force: true });
  const shown = display(say);
  const steps = cleanup.adopt(await readSteps(pool, shown.step), (reader) => reader.stop());
  const stack = await startStack({
    databaseUrl,
    queueDirectory,
    port: options.port ?? (await freePort(PREFERRED.api)),
    onLine: (line) => {
      shown.line(line);
      steps.look();
    },
    onDelivery: (delivery) => {
      shown.delivery(delivery);
      steps.look();
    },
    onRequest: (request) => {
      shown.request(request);
      steps.look();
    },
    onError: shown.error,
  });
  cleanup.defer(stack.stop);
  return stack;
}

/** Messages belong to the database whose events they carry. */
function queueFolder(databaseUrl: string | undefined): string {
  if (databaseUrl === undefined) return join(LOCAL, 'queues');
  const { host, pathname } = new URL(databaseUrl);
  return join(LOCAL, `queues-${`${host}${pathname}`.replace(/[^\w.-]/g, '-')}`);
}

function welcome(
  { apiUrl, sqsEndpoint }: Stack,
  database: LocalDatabase,
  seeded: { sku: string; available: number }[],
): string {
  const stock = seeded.map(({ sku, available }) => `${sku} (${available})`).join(', ');
  return `
  API       ${apiUrl}
  Database  ${database.place}
  SQS       ${sqsEndpoint}
${stock ? `  Stock     ${stock}, put in because there was none\n` : ''}
Post an order:
  curl -i ${apiUrl}/orders -H 'content-type: application/json' -d '{"orderId":"order-1","sku":"SKU-17","quantity":2}'
Pay for it, and ship it:
  curl -i -X POST ${apiUrl}/orders/order-1/payment
  curl -i -X POST ${apiUrl}/orders/order-1/shipment

Every step of every event is shown here. Functions are rebuilt when their source changes. Ctrl-C stops.
`;
}
