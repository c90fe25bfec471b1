import { randomUUID } from 'node:crypto';
import { Client, DatabaseError, type ClientConfig } from 'pg';
import {
  EditedMigrationError,
  FailedMigrationError,
  MigrationLockError,
  UnresolvedMigrationError,
} from './errors.ts';
import { matchesChecksum, readMigrations, type MigrationFile } from './files.ts';

/** Prisma's own lock number, so that this and `prisma migrate deploy` wait for each other. */
const PRISMA_LOCK = 72707369;
const CONNECT_TIMEOUT_MS = 5_000;
const LOCK_NOT_AVAILABLE = '55P03';

export interface DeployMigrations {
  /** Of a role that may create tables. Not through PgBouncer's transaction mode: the lock lives in the session. */
  connectionString?: string;
  /** pg's own settings, in place of the connection string. */
  connection?: ClientConfig;
  /** A `prisma/migrations` folder. */
  directory: string;
  /** Takes one line per thing an operator should see; silent by default. */
  log?: (line: string) => void;
  /** How long to wait for another run; Prisma's own 10 by default. */
  lockWaitSeconds?: number;
}

interface AppliedMigration {
  migration_name: string;
  checksum: string;
  started_at: Date;
  finished_at: Date | null;
}

/**
 * Applies the migrations that the database does not have yet, each file in one implicit transaction, and keeps
 * Prisma's own `_prisma_migrations` table, so `prisma migrate` works on the same database before and after.
 *
 * @returns the names of the migrations applied now, in order; empty when the database was up to date.
 * @throws MigrationLockError when another run holds the lock for `lockWaitSeconds`; UnresolvedMigrationError (P3009) when an
 *   earlier migration failed; EditedMigrationError when an applied file has changed since; FailedMigrationError
 *   when PostgreSQL refuses a file. In every case but the last nothing was changed, and in the last the files
 *   before the refused one stay applied.
 */
export async function deployMigrations({
  connectionString,
  connection,
  directory,
  log,
  lockWaitSeconds = 10,
}: DeployMigrations): Promise<string[]> {
  const files = readMigrations(directory);
  const client = new Client({
    ...(connection ?? { connectionString }),
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
  });
  // A session lost between two statements is reported by the next one; without a listener it would end the process.
  client.on('error', () => undefined);
  await client.connect();
  try {
    await takeLock(client, lockWaitSeconds);
    await createHistory(client);
    const history = await readHistory(client);
    refuseUnresolved(history);
    refuseEdited(history, files);
    reportUnknown(history, files, log);

    const applied = new Set(history.map((row) => row.migration_name));
    const missing = files.filter((file) => !applied.has(file.name));
    for (const file of missing) {
      await apply(client, file);
      log?.(`applied migration ${file.name}`);
    }
    return missing.map((file) => file.name);
  } finally {
    // Closing the session gives the lock back.
    await client.end();
  }
}

async function takeLock(client: Client, waitSeconds: number): Promise<void> {
  await client.query(`SET lock_timeout = '${waitSeconds}s'`);
  try {
    await client.query('SELECT pg_advisory_lock($1)', [PRISMA_LOCK]);
  } catch (cause) {
    if (cause instanceof DatabaseError && cause.code === LOCK_NOT_AVAILABLE) {
      throw new MigrationLockError(waitSeconds, cause);
    }
    throw cause;
  }
  await client.query('RESET lock_timeout');
}

/** The table exactly as Prisma 2 to 7 creates it. */
async function createHistory(client: Client): Promise<void> {
  await client.query(`
    CREATE TABLE IF NOT EXISTS "_prisma_migrations" (
      "id"                  VARCHAR(36) PRIMARY KEY NOT NULL,
      "checksum"            VARCHAR(64) NOT NULL,
      "finished_at"         TIMESTAMPTZ,
      "migration_name"      VARCHAR(255) NOT NULL,
      "logs"                TEXT,
      "rolled_back_at"      TIMESTAMPTZ,
      "started_at"          TIMESTAMPTZ NOT NULL DEFAULT now(),
      "applied_steps_count" INTEGER NOT NULL DEFAULT 0
    )`);
}

async function readHistory(client: Client): Promise<AppliedMigration[]> {
  const { rows } = await client.query<AppliedMigration>(`
    SELECT migration_name, checksum, started_at, finished_at
    FROM "_prisma_migrations"
    WHERE rolled_back_at IS NULL
    ORDER BY started_at`);
  return rows;
}

function refuseUnresolved(history: AppliedMigration[]): void {
  const unresolved = history.find((row) => row.finished_at === null);
  if (unresolved) throw new UnresolvedMigrationError(unresolved.migration_name, unresolved.started_at);
}

function refuseEdited(history: AppliedMigration[], files: MigrationFile[]): void {
  for (const row of history) {
    const file = files.find((candidate) => candidate.name === row.migration_name);
    if (file && !matchesChecksum(file.sql, row.checksum)) {
      throw new EditedMigrationError(file.name, row.checksum, file.checksum);
    }
  }
}

/** A database ahead of the files is a rolled-back release, not an error: schemas move forward only. */
function reportUnknown(
  history: AppliedMigration[],
  files: MigrationFile[],
  log: DeployMigrations['log'],
): void {
  for (const row of history) {
    if (!files.some((file) => file.name === row.migration_name)) {
      log?.(`the database has migration ${row.migration_name}, which this release does not know`);
    }
  }
}

async function apply(client: Client, { name, sql, checksum }: MigrationFile): Promise<void> {
  const id = randomUUID();
  await client.query('INSERT INTO "_prisma_migrations" (id, checksum, migration_name) VALUES ($1, $2, $3)', [
    id,
    checksum,
    name,
  ]);
  try {
    // Without parameters it is one simple query, which PostgreSQL runs as one transaction however many statements.
    await client.query(sql);
  } catch (cause) {
    const failure = new FailedMigrationError(name, cause);
    // When the session is gone too, the unfinished row already says enough, and the cause matters more.
    await noteFailure(client, id, failure.message).catch(() => undefined);
    throw failure;
  }
  await client.query(
    'UPDATE "_prisma_migrations" SET finished_at = clock_timestamp(), applied_steps_count = 1 WHERE id = $1',
    [id],
  );
}

async function noteFailure(client: Client, id: string, message: string): Promise<void> {
  // A file with its own BEGIN leaves the session in an aborted transaction.
  await client.query('ROLLBACK');
  await client.query('UPDATE "_prisma_migrations" SET logs = $2 WHERE id = $1', [id, message]);
}
