// The one PostgreSQL of a test run: embedded, or the one of DATABASE_URL.

import { randomBytes } from 'node:crypto';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client, escapeIdentifier, escapeLiteral } from 'pg';
import { deployMigrations } from '../../functions/migrate/migrate.ts';
import * as ctl from '../../infra/local/pg-ctl.ts';
import { startPostgres } from '../../infra/local/postgres.ts';

/** For a connection on a machine that is busy. */
const PATIENCE_MS = 60_000;

const migrations = fileURLToPath(new URL('../../prisma/migrations', import.meta.url));

/** What tests are told about the server (Vitest's `inject('server')`). */
export interface TestServer {
  /** A maintenance connection, of a role that may create databases. */
  adminUrl: string;
  /** Name of the migrated database that each test's own is cloned from. */
  template: string;
  /** Every database of this run begins with this, so that teardown finds them. */
  prefix: string;
  /** Whether the role is a superuser; a few knobs need one: `test.skipIf(!inject('server').superuser)`. */
  superuser: boolean;
}

/**
 * Starts a PostgreSQL, or takes the server of `databaseUrl`, and makes the migrated template. Of a server that was
 * given only databases named `outbox_test_…` are created and, by `stop`, dropped; nothing else is touched.
 * Throws when the given role may not create databases. Databases of a run that was killed are dropped by the next one.
 * @param settings of an embedded one, by PostgreSQL's own names.
 * @param timeZone in which all its sessions begin; of an embedded one.
 */
export async function startTestServer(
  databaseUrl: string | undefined,
  options: { settings?: Readonly<Record<string, string>>; timeZone?: string } = {},
): Promise<{ server: TestServer; stop: () => Promise<void> }> {
  const postgres = databaseUrl ? undefined : await startPostgres(options);
  const adminUrl = databaseUrl || (postgres?.url ?? '');
  const prefix = `outbox_test_${randomBytes(4).toString('hex')}`;
  const presence = new Client({ connectionString: adminUrl, application_name: prefix });
  // Its loss only means that another run may sweep this one's databases.
  presence.on('error', () => undefined);
  const stop = async (): Promise<void> => {
    if (!postgres) await dropDatabases(adminUrl, (name) => name.startsWith(prefix));
    await presence.end();
    await postgres?.stop();
  };
  try {
    await presence.connect();
    const superuser = await readRights(adminUrl);
    if (!postgres) await sweep(adminUrl);
    else if (options.timeZone) await setServerTimeZone(adminUrl, options.timeZone);
    const server = { adminUrl, template: `${prefix}_template`, prefix, superuser };
    await makeTemplate(server);
    return { server, stop };
  } catch (error) {
    // Of a given server nothing may be there to drop, or nobody to talk to; the first error says more.
    await stop().catch(() => undefined);
    throw error;
  }
}

/**
 * Restarts an embedded server, which keeps its address. All sessions end.
 * @param mode `immediate` is a crash: nothing is rolled back or written down, and recovery has to make it good.
 */
export async function restartServer(url: string, mode: 'fast' | 'immediate'): Promise<void> {
  const [row] = await runAsAdmin(url, ['SHOW data_directory']);
  const home = dirname(String(row?.['data_directory']));
  const server = { pgCtl: await ctl.findPgCtl(), home, temporary: true, identity: ctl.unprivileged() };
  await ctl.pgCtl(server, ['restart', '-s', '-w', '-m', mode, '-l', ctl.logOf(server)]);
}

/** Runs statements one after another on a connection of their own and returns the rows of the last. */
export async function runAsAdmin(
  url: string,
  ...statements: [text: string, ...values: unknown[]][]
): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: PATIENCE_MS });
  await client.connect();
  try {
    let rows: Record<string, unknown>[] = [];
    for (const [text, ...values] of statements) ({ rows } = await client.query(text, values));
    return rows;
  } finally {
    await client.end();
  }
}

/** The same server, role and options, another database. */
export function urlOf(url: string, database: string): string {
  const other = new URL(url);
  other.pathname = `/${database}`;
  return other.href;
}

/** Whether the role is a superuser; throws when it may not even create databases. */
async function readRights(adminUrl: string): Promise<boolean> {
  const [role] = await runAsAdmin(adminUrl, [
    'SELECT rolname, rolcreatedb, rolsuper FROM pg_roles WHERE rolname = current_user',
  ]);
  const name = String(role?.['rolname']);
  if (role?.['rolcreatedb'] !== true && role?.['rolsuper'] !== true)
    throw new Error(
      `The role "${name}" of DATABASE_URL may not create databases, and each test gets one of its own. ` +
        `Run: ALTER ROLE "${name}" CREATEDB. Or unset DATABASE_URL to use an embedded PostgreSQL.`,
    );
  return role['rolsuper'] === true;
}

/** For sessions that begin once the server has read it, which the template's do. */
const setServerTimeZone = (url: string, zone: string) =>
  runAsAdmin(url, [`ALTER SYSTEM SET TimeZone = ${escapeLiteral(zone)}`], ['SELECT pg_reload_conf()']);

async function makeTemplate({ adminUrl, template }: TestServer): Promise<void> {
  // template0: a given server's template1 may hold other people's tables.
  await runAsAdmin(adminUrl, [`CREATE DATABASE ${escapeIdentifier(template)} TEMPLATE template0`]);
  await deployMigrations({ connectionString: urlOf(adminUrl, template), directory: migrations });
}

/** Drops what killed runs have left: every living run has a session named after its prefix. */
async function sweep(adminUrl: string): Promise<void> {
  const named = await runAsAdmin(adminUrl, [
    'SELECT DISTINCT application_name AS name FROM pg_stat_activity',
  ]);
  const living = named.map((session) => session['name']);
  await dropDatabases(
    adminUrl,
    (name) => !living.includes(/^outbox_test_[0-9a-f]{8}/.exec(name)?.[0] ?? null),
  );
}

/** Of the scratch databases that this role owns. */
async function dropDatabases(adminUrl: string, which: (name: string) => boolean): Promise<void> {
  const scratch = await runAsAdmin(adminUrl, [
    `SELECT datname FROM pg_database WHERE datname ~ '^outbox_test_[0-9a-f]{8}_' AND pg_get_userbyid(datdba) = current_user`,
  ]);
  const names = scratch.map((row) => String(row['datname'])).filter(which);
  await runAsAdmin(
    adminUrl,
    ...names.map((name): [string] => [`DROP DATABASE IF EXISTS ${escapeIdentifier(name)} WITH (FORCE)`]),
  );
}
