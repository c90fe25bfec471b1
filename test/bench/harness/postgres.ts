// The benchmarks' PostgreSQL: embedded, durable as in production, with settings that are stated beside every table.

import { escapeIdentifier } from 'pg';
import { fileURLToPath } from 'node:url';
import { deployMigrations } from '../../../functions/migrate/migrate.ts';
import { startPostgres } from '../../../infra/local/postgres.ts';
import { runAsAdmin, urlOf } from '../../support/server.ts';
import { afterwards } from '../../support/cleanup.ts';
import { cpuOfTree } from './cpu.ts';

/** What differs from PostgreSQL's own defaults; a test's server would not sync. */
export const SETTINGS: Readonly<Record<string, string>> = {
  fsync: 'on',
  full_page_writes: 'on',
  shared_buffers: '1GB',
  max_wal_size: '8GB',
  wal_level: 'logical',
  autovacuum_naptime: '5s',
  max_connections: '200',
};

/** A database of one repetition's own. */
export interface BenchDatabase {
  readonly url: string;
  /** Runs one statement as superuser and returns its rows. */
  readonly sql: (text: string, ...values: unknown[]) => Promise<Record<string, unknown>[]>;
  /** Ends the preparation: what was inserted is vacuumed, analysed and on disk, so that no one pays for it later. */
  settle(): Promise<void>;
  drop(): Promise<void>;
}

/** The server of a run. */
export interface BenchServer {
  /** A migrated database, or an empty one. */
  create(options?: { migrated?: boolean }): Promise<BenchDatabase>;
  /** Milliseconds of CPU so far, all its processes together. */
  cpuMs(): number;
  readonly version: string;
}

const migrations = fileURLToPath(new URL('../../../prisma/migrations', import.meta.url));

/** Starts the server; it ends, with its files, when the scope does. */
export async function startBenchPostgres(): Promise<BenchServer> {
  const { url, stop } = await startPostgres({ settings: SETTINGS });
  afterwards(stop);
  const [row] = await runAsAdmin(url, [
    "SELECT pg_read_file('postmaster.pid') AS file, current_setting('server_version') AS version",
  ]);
  // Its first line is the process that all others of the server come from.
  const pid = Number.parseInt(String(row?.['file']), 10);
  await runAsAdmin(url, ['CREATE DATABASE template_migrated TEMPLATE template0']);
  await deployMigrations({ connectionString: urlOf(url, 'template_migrated'), directory: migrations });
  let count = 0;
  return {
    version: String(row?.['version']),
    cpuMs: () => cpuOfTree(pid),
    create: async ({ migrated = true } = {}) => {
      const name = `bench_${(count += 1)}`;
      const template = migrated ? 'template_migrated' : 'template0';
      await runAsAdmin(url, [`CREATE DATABASE ${escapeIdentifier(name)} TEMPLATE ${template}`]);
      return open(url, name);
    },
  };
}

function open(adminUrl: string, name: string): BenchDatabase {
  const url = urlOf(adminUrl, name);
  const sql = (text: string, ...values: unknown[]) => runAsAdmin(url, [text, ...values]);
  return {
    url,
    sql,
    settle: async () => {
      await sql('VACUUM ANALYZE');
      await sql('CHECKPOINT');
    },
    drop: async () => {
      await runAsAdmin(adminUrl, [`DROP DATABASE IF EXISTS ${escapeIdentifier(name)} WITH (FORCE)`]);
    },
  };
}
