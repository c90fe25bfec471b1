// The local stack's database: an embedded one, or the one in DATABASE_URL, which may be somebody's.

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from 'pg';
import { deployMigrations } from '../../functions/migrate/migrate.ts';
import { connectionSettings } from '../../functions/shared/connection.ts';
import { databaseProblems, parseUrl } from '../../functions/shared/database-settings.ts';
import { describeError } from '../../functions/shared/errors.ts';
import { UsageError } from './errors.ts';
import { PROJECT } from './package.ts';
import { startPostgres } from './postgres.ts';

/** A migrated database. */
export interface LocalDatabase {
  url: string;
  /** Where it is, without its password. */
  place: string;
  /** Stops it if it is ours to stop. */
  stop: () => Promise<void>;
}

/** How a database is opened. */
export interface DatabaseOptions {
  /** `DATABASE_URL`; without it an embedded PostgreSQL is started. */
  url: string | undefined;
  /** Keeps the embedded one's data in this folder; without it they are thrown away at the end. */
  directory?: string;
  port?: number;
  /** Starts with empty tables. */
  empty: boolean;
  /** Goes ahead where it would refuse. */
  force: boolean;
}

/** The database cannot be used as it is; the message says what is in the way and what would be done to it. */
export class DatabaseInUseError extends UsageError {
  override readonly name = 'DatabaseInUseError';
  constructor(place: string, found: string, consequence: string) {
    super(`The database ${place} ${found}. Use an empty one, or --force: ${consequence}.`);
  }
}

const MIGRATIONS = join(PROJECT, 'prisma', 'migrations');
const CONNECT_TIMEOUT_MS = 5_000;
const DATA_TABLES = ['orders', 'order_history', 'stock_balance', 'outbox_event', 'applied_event'];
const OUR_TABLES = new Set([...DATA_TABLES, '_prisma_migrations']);

/**
 * Opens and migrates the database. One that is not embedded is refused with DatabaseInUseError when it has tables
 * of others, and, if it is to be emptied, when ours hold rows; `force` overrides both.
 */
export async function openDatabase(options: DatabaseOptions): Promise<LocalDatabase> {
  const { url, directory, port, empty } = options;
  if (url !== undefined) return openGiven(url, options);
  const server = await startPostgres({
    ...(directory !== undefined && { directory }),
    ...(port !== undefined && { port }),
  });
  try {
    // Not the tables one by one: a migration that was edited since must not be in the way either.
    if (empty) await run(server.url, ['DROP SCHEMA public CASCADE', 'CREATE SCHEMA public']);
    await deployMigrations({ connectionString: server.url, directory: MIGRATIONS });
    return { url: server.url, place: `embedded, ${server.url}`, stop: server.stop };
  } catch (error) {
    await server.stop();
    throw error;
  }
}

/**
 * Connects to a given database and leaves again.
 *
 * @throws UsageError in one paragraph, without the password, when DATABASE_URL is malformed or nobody answers there
 */
export async function reachDatabase(url: string): Promise<void> {
  const [problem] = databaseProblems({ DATABASE_URL: url });
  const parsed = /^postgres(ql)?:/.test(url) ? parseUrl(url) : undefined;
  if (problem !== undefined) throw new UsageError(problem);
  if (!parsed) throw new UsageError('DATABASE_URL: expected a postgresql:// connection string.');
  const settings = await connectionSettings({ databaseUrl: url })();
  const client = new Client({ ...settings, connectionTimeoutMillis: CONNECT_TIMEOUT_MS });
  client.on('error', () => undefined);
  try {
    await client.connect();
  } catch (cause) {
    throw new UsageError(
      `DATABASE_URL: no connection to ${parsed.host}${parsed.pathname} (${describeError(cause)}). Start that server, correct the variable, or unset it to use an embedded PostgreSQL.`,
      { cause },
    );
  } finally {
    await client.end().catch(() => undefined);
  }
}

async function openGiven(url: string, { empty, force }: DatabaseOptions): Promise<LocalDatabase> {
  const { host, pathname } = new URL(url);
  const place = `${host}${pathname}`;
  const found = await contentsOf(url);
  const emptied = `its tables ${DATA_TABLES.join(', ')} would be ${empty ? 'emptied' : 'created and used'}`;
  if (found.others.length > 0 && !force)
    throw new DatabaseInUseError(
      place,
      `has other tables (${found.others.slice(0, 5).join(', ')} …)`,
      emptied,
    );
  if (empty && found.rows > 0 && !force)
    throw new DatabaseInUseError(place, `has ${found.rows} rows in the example's tables`, emptied);
  await deployMigrations({ connectionString: url, directory: MIGRATIONS });
  if (empty) await run(url, [`TRUNCATE ${DATA_TABLES.join(', ')} RESTART IDENTITY`]);
  return { url, place, stop: async () => {} };
}

/** Tables that are not ours, and how many rows ours have. Without our migrations, even tables of our names are others'. */
async function contentsOf(url: string): Promise<{ others: string[]; rows: number }> {
  const client = new Client(url);
  await client.connect();
  try {
    const { rows: tables } = await client.query<{ name: string }>(TABLES);
    const names = tables.map(({ name }) => name);
    const isOurs = names.includes('_prisma_migrations') && (await onlyOurMigrations(client));
    if (!isOurs) return { others: names, rows: 0 };
    const counts = DATA_TABLES.filter((name) => names.includes(name)).map(
      (name) => `(SELECT count(*) FROM ${name})`,
    );
    const counted = await client.query<{ rows: string }>(`SELECT ${counts.join(' + ') || '0'} AS rows`);
    return { others: names.filter((name) => !OUR_TABLES.has(name)), rows: Number(counted.rows[0]?.rows) };
  } finally {
    await client.end();
  }
}

/** Every ordinary table that belongs to no extension; those of the default schema by their bare name. */
const TABLES = `
  SELECT CASE n.nspname WHEN current_schema() THEN c.relname ELSE n.nspname || '.' || c.relname END AS name
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
   WHERE c.relkind IN ('r', 'p') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
     AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')
   ORDER BY 1`;

async function onlyOurMigrations(client: Client): Promise<boolean> {
  const ours = new Set(readdirSync(MIGRATIONS));
  const { rows } = await client.query<{ name: string }>(
    'SELECT migration_name AS name FROM _prisma_migrations',
  );
  return rows.length > 0 && rows.every(({ name }) => ours.has(name));
}

async function run(url: string, statements: string[]): Promise<void> {
  const client = new Client(url);
  await client.connect();
  try {
    for (const statement of statements) await client.query(statement);
  } finally {
    await client.end();
  }
}
