import { bindMigrationAwareSqlAdapterFactory } from '@prisma/driver-adapter-utils';
import * as wasm from '@prisma/schema-engine-wasm';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { readMigrations } from '../functions/migrate/files.ts';
import { schemaAdapterFactory } from './schema-adapter.ts';

/** Where the schema and its migrations are. */
export interface SchemaPaths {
  schema: string;
  migrations: string;
}

/** Prisma's schema engine over one database, for one schema. */
export interface SchemaEngine {
  /** The SQL that leads from the migrations to the schema; null when they agree. Uses a shadow database. */
  missingSql(): Promise<string | null>;
  /** Compares the database's migration history with the files; all empty and `history` null when in sync. */
  diagnose(): Promise<wasm.DiagnoseMigrationHistoryOutput>;
  /** Lets a failed migration be tried again, as `prisma migrate resolve --rolled-back` does. */
  markRolledBack(migration: string): Promise<void>;
}

// The engine's own hook: without it a panic shows as "unreachable" only.
Object.assign(globalThis, {
  PRISMA_WASM_PANIC_REGISTRY: {
    set_message: (message: string) => console.error(`schema engine panicked: ${message}`),
  },
});

/** Without externally managed tables or enums. */
const filters = { externalTables: [], externalEnums: [] };

/**
 * Opens the engine that Prisma compiles to WebAssembly: the native one is a separate download, this one comes with
 * `npm ci`. It reads the files once, here, and connects at once.
 *
 * Its connections and a ten-second timer outlive it, so a script that used it has to end with `process.exit`.
 */
export async function openSchemaEngine(url: string, paths: SchemaPaths): Promise<SchemaEngine> {
  const files = [{ path: paths.schema, content: readFileSync(paths.schema, 'utf8') }];
  const migrationsList = listMigrations(paths.migrations);
  const engine = await wasm.SchemaEngine.new(
    { datamodels: files.map((file) => [file.path, file.content]) },
    () => undefined,
    bindMigrationAwareSqlAdapterFactory(schemaAdapterFactory(url)),
  );
  return {
    async missingSql() {
      const from: wasm.DiffTarget =
        migrationsList.migrationDirectories.length === 0
          ? { tag: 'empty' }
          : { tag: 'migrations', ...migrationsList };
      const to: wasm.DiffTarget = { tag: 'schemaDatamodel', files };
      const diff = await engine.diff({ from, to, script: true, exitCode: true, filters });
      return diff.exitCode === 0 ? null : diff.stdout;
    },
    diagnose: () =>
      engine.diagnoseMigrationHistory({ migrationsList, optInToShadowDatabase: false, filters }),
    async markRolledBack(migrationName) {
      await engine.markMigrationRolledBack({ migrationName });
    },
  };
}

function listMigrations(directory: string): wasm.MigrationList {
  return {
    baseDir: path.resolve(directory),
    shadowDbInitScript: '',
    lockfile: { path: 'migration_lock.toml', content: 'provider = "postgresql"\n' },
    migrationDirectories: readMigrations(directory).map(({ name, sql }) => ({
      path: name,
      migrationFile: { path: 'migration.sql', content: { tag: 'ok', value: sql } },
    })),
  };
}
