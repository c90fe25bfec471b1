import { PrismaPg } from '@prisma/adapter-pg';
import {
  ColumnTypeEnum,
  type ColumnType,
  type SqlDriverAdapter,
  type SqlMigrationAwareDriverAdapterFactory,
  type SqlResultSet,
} from '@prisma/driver-adapter-utils';
import { randomUUID } from 'node:crypto';
import { Client, type Pool } from 'pg';

// Prisma's adapter serves queries; the schema engine also reads the catalogue and replays migrations, where
// adapter-pg 7.10.0 fails in three ways (all reproduced). The corrections stay outside its private members.

/** The catalogue's one-byte "char" type, unknown to adapter-pg. */
const CHAR_OID = 18;
const CHAR_ARRAY_OID = 1002;
const TEXT_OID = 25;
const TEXT_ARRAY_OID = 1009;

interface Field {
  dataTypeID: number;
}
interface QueryResult {
  rows: unknown[];
  fields?: Field[];
}

/** Gives the schema engine connections to the database at `url`, and shadow databases beside it. */
export function schemaAdapterFactory(url: string): SqlMigrationAwareDriverAdapterFactory {
  return {
    provider: 'postgres',
    adapterName: '@prisma/adapter-pg',
    connect: () => connect(url),
    connectToShadowDb: () => connectToShadowDatabase(url),
  };
}

async function connect(connectionString: string): Promise<SqlDriverAdapter> {
  // One connection: the engine's advisory lock lives in its session.
  const adapter = await new PrismaPg({ connectionString, max: 1 }).connect();
  const charColumns = relabelCharColumns(adapter.underlyingDriver());
  const queryRaw = adapter.queryRaw.bind(adapter);
  return Object.assign(adapter, {
    queryRaw: async (query: Parameters<typeof queryRaw>[0]) => {
      const result = await queryRaw(query);
      return asCharacters(result, charColumns.get(result.rows) ?? []);
    },
    // The adapter's own splits at every ';' and so breaks function bodies and leaves half of a failed file behind.
    // Without arguments executeRaw is one simple query, and the whole file one transaction.
    executeScript: async (sql: string) => {
      await adapter.executeRaw({ sql, args: [], argTypes: [] });
    },
  });
}

/** The adapter's own lets `connectionString` win over the name, and so replays migrations on the real database. */
async function connectToShadowDatabase(url: string): Promise<SqlDriverAdapter> {
  const name = `prisma_migrate_shadow_db_${randomUUID()}`;
  const shadowUrl = new URL(url);
  shadowUrl.pathname = `/${name}`;
  await runOnce(url, `CREATE DATABASE "${name}"`);
  const adapter = await connect(shadowUrl.href);
  const dispose = adapter.dispose.bind(adapter);
  return Object.assign(adapter, {
    dispose: async () => {
      await dispose();
      await runOnce(url, `DROP DATABASE "${name}" WITH (FORCE)`);
    },
  });
}

/** Lets the adapter take "char" for text, and remembers by result which columns they were. */
function relabelCharColumns(pool: Pool): WeakMap<object, number[]> {
  const charColumns = new WeakMap<object, number[]>();
  // `query` is heavily overloaded; the adapter uses its promise form only.
  const query = pool.query.bind(pool) as (...args: unknown[]) => Promise<QueryResult>;
  const relabelled = async (...args: unknown[]): Promise<QueryResult> => {
    const result = await query(...args);
    const fields = result.fields ?? [];
    charColumns.set(
      result.rows ?? result,
      fields.flatMap((field, index) => (field.dataTypeID === CHAR_OID ? [index] : [])),
    );
    for (const field of fields) {
      if (field.dataTypeID === CHAR_OID) field.dataTypeID = TEXT_OID;
      if (field.dataTypeID === CHAR_ARRAY_OID) field.dataTypeID = TEXT_ARRAY_OID;
    }
    return result;
  };
  Object.assign(pool, { query: relabelled });
  return charColumns;
}

/** Tells the engine the true type of those columns; called text, they make it panic. */
function asCharacters(result: SqlResultSet, columns: number[]): SqlResultSet {
  const columnTypes: ColumnType[] = result.columnTypes.map((type, index) =>
    columns.includes(index) ? ColumnTypeEnum.Character : type,
  );
  const rows = result.rows.map((row) =>
    row.map((value, index) => (value === '' && columns.includes(index) ? '\0' : value)),
  );
  return { ...result, columnTypes, rows };
}

async function runOnce(url: string, sql: string): Promise<void> {
  const client = new Client(url);
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}
