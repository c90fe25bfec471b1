import { randomBytes } from 'node:crypto';
import { Client, escapeIdentifier, Pool, TypeOverrides } from 'pg';
import { inject } from 'vitest';
import { afterwards } from './cleanup.ts';
import { urlOf, type TestServer } from './server.ts';

export { createPrisma } from './prisma.ts';

/** Marks the sessions through which a test looks on, so that knobs leave them alone. */
export const ONLOOKER = 'outbox-test-onlooker';

const INT8 = 20;

/** A row as the test sees it; `sql<Row>` narrows it. */
export type Row = Record<string, unknown>;

/** A PostgreSQL database of a test's own. */
export interface TestDatabase {
  url: string;
  name: string;
  /**
   * One statement on a pool of two that is the test's alone. bigint comes as a number (counts, sequences), json as
   * a parsed value: select `payload::text` for its bytes.
   */
  sql<T extends Row = Row>(text: string, values?: unknown[]): Promise<T[]>;
  /** Ends its sessions and drops it. Done by itself when the test ends; calling it again does nothing. */
  drop: () => Promise<void>;
}

/**
 * A database of the test's own: a clone of the migrated template, or an empty one. Dropped when the test (or, made
 * in `beforeAll`, the file) ends. Files in parallel workers share the server and never a database.
 */
export async function createDatabase({
  migrated = true,
}: { migrated?: boolean } = {}): Promise<TestDatabase> {
  const server = inject('server');
  const name = `${server.prefix}_${randomBytes(6).toString('hex')}`;
  const template = migrated ? server.template : 'template0';
  await admin().query(`CREATE DATABASE ${escapeIdentifier(name)} TEMPLATE ${escapeIdentifier(template)}`);
  const database = open(server, name);
  afterwards(database.drop);
  return database;
}

/** A single session, for a transaction that stays open while others work. Closed when the test ends. */
export async function openSession(url: string): Promise<Client> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 5_000 });
  // Tests end sessions on purpose; without a listener that would end the process.
  client.on('error', () => undefined);
  await client.connect();
  afterwards(() => client.end());
  return client;
}

let adminPool: Pool | undefined;

/** One maintenance pool per worker: a new connection each time would cost more than a drop. */
export function admin(): Pool {
  if (adminPool) return adminPool;
  adminPool = new Pool({ connectionString: inject('server').adminUrl, max: 2, allowExitOnIdle: true });
  adminPool.on('error', () => undefined);
  return adminPool;
}

function open(server: TestServer, name: string): TestDatabase {
  const url = urlOf(server.adminUrl, name);
  const pool = new Pool({
    connectionString: url,
    max: 2,
    application_name: ONLOOKER,
    // The onlooker can still write in a database that a knob has made read-only.
    options: '-c default_transaction_read_only=off',
    types: onlookerTypes(),
  });
  // Tests end sessions on purpose; without a listener that would end the process.
  pool.on('error', () => undefined);
  let dropped: Promise<void> | undefined;
  const drop = async (): Promise<void> => {
    await pool.end();
    await admin().query(`DROP DATABASE IF EXISTS ${escapeIdentifier(name)} WITH (FORCE)`);
  };
  return {
    url,
    name,
    sql: async <T extends Row>(text: string, values: unknown[] = []) =>
      (await pool.query<T>(text, values)).rows,
    drop: () => (dropped ??= drop()),
  };
}

function onlookerTypes(): TypeOverrides {
  const overrides = new TypeOverrides();
  overrides.setTypeParser(INT8, Number);
  return overrides;
}
