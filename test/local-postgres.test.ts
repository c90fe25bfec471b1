// The embedded PostgreSQL, and when a given database is refused.

import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { expect, test } from 'vitest';
import { openDatabase } from '../infra/local/database.ts';
import { freePort, startPostgres } from '../infra/local/postgres.ts';
import { afterwards } from './support/cleanup.ts';
import { createDatabase } from './support/database.ts';

async function query(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new Client(url);
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await client.end();
  }
}

const setting = async (url: string, name: string) => (await query(url, `SHOW ${name}`))[0]?.[name];

async function scratch(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'outbox-pgtest-'));
  afterwards(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

test('a temporary server listens on loopback only, and leaves nothing behind', async () => {
  const server = await startPostgres();
  afterwards(server.stop);
  expect(await setting(server.url, 'listen_addresses')).toBe('127.0.0.1');
  expect(await setting(server.url, 'fsync')).toBe('off');
  expect(Number(await setting(server.url, 'max_connections'))).toBeGreaterThanOrEqual(200);
  const data = String(await setting(server.url, 'data_directory'));
  await server.stop();
  await server.stop();
  expect(existsSync(data)).toBe(false);
  await expect(query(server.url, 'SELECT 1')).rejects.toThrow('ECONNREFUSED');
});

test('a kept server is durable, is refused to a second owner, and still has its data next time', async () => {
  const directory = await scratch();
  const first = await startPostgres({ directory });
  afterwards(first.stop);
  expect(await setting(first.url, 'fsync')).toBe('on');
  await query(first.url, 'CREATE TABLE kept AS SELECT 1 AS one');
  await expect(startPostgres({ directory })).rejects.toThrow(`in use by process ${process.pid}`);
  await first.stop();
  const second = await startPostgres({ directory });
  afterwards(second.stop);
  expect(await query(second.url, 'SELECT * FROM kept')).toEqual([{ one: 1 }]);
});

test.each([
  ['exits', 'process.exit(3)', 3],
  ['throws', 'throw new Error("on purpose")', 1],
  ['gets SIGTERM', 'process.kill(process.pid, "SIGTERM"); setInterval(() => {}, 1000)', 'SIGTERM'],
])('the server ends with a process that %s, which keeps its exit code', async (_how, ending, code) => {
  const module = join(import.meta.dirname, '..', 'infra', 'local', 'postgres.ts');
  const script = `import { startPostgres } from ${JSON.stringify(module)};
    const { url } = await startPostgres(); console.log(url); ${ending};`;
  const ended = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script]).catch(
    (error: { code: number | null; signal: string | null; stdout: string }) => error,
  );
  expect('code' in ended ? (ended.signal ?? ended.code) : 0).toBe(code);
  await expect(query(ended.stdout.trim(), 'SELECT 1')).rejects.toThrow('ECONNREFUSED');
});

test('a port that is taken is not offered, a free one is', async () => {
  const holder = createServer().listen(0, '127.0.0.1');
  afterwards(() => holder.close());
  const port = await freePort();
  expect(await freePort(port)).toBe(port);
  const address = holder.address();
  const taken = typeof address === 'object' && address ? address.port : 0;
  expect(await freePort(taken)).not.toBe(taken);
});

test('a database with tables of others is refused by name, unless forced', async () => {
  const db = await createDatabase({ migrated: false });
  await db.sql('CREATE TABLE invoice (id int)');
  const options = { url: db.url, empty: false, force: false };
  await expect(openDatabase(options)).rejects.toThrow(/has other tables \(invoice …\).*--force/);
  await openDatabase({ ...options, force: true });
  expect(await db.sql('SELECT count(*)::int AS events FROM outbox_event')).toEqual([{ events: 0 }]);
});

test('tables of our names that our migrations did not make are others’ too', async () => {
  const db = await createDatabase({ migrated: false });
  await db.sql('CREATE TABLE orders (id int)');
  await expect(openDatabase({ url: db.url, empty: true, force: false })).rejects.toThrow(
    'has other tables (orders …)',
  );
});

test('our own rows are kept, and emptied only when forced', async () => {
  const db = await createDatabase();
  await db.sql("INSERT INTO stock_balance VALUES ('SKU-1', 1)");
  await db.sql("INSERT INTO order_history (order_id, step) VALUES ('order-1', 'placed')");
  await openDatabase({ url: db.url, empty: false, force: false });
  await expect(openDatabase({ url: db.url, empty: true, force: false })).rejects.toThrow('has 2 rows');
  expect(await db.sql('SELECT sku FROM stock_balance')).toEqual([{ sku: 'SKU-1' }]);
  await openDatabase({ url: db.url, empty: true, force: true });
  expect(await db.sql('SELECT sku FROM stock_balance')).toEqual([]);
  expect(await db.sql('SELECT step FROM order_history')).toEqual([]);
});

test('an empty database is taken and migrated, and its password is not shown', async () => {
  const db = await createDatabase({ migrated: false });
  const opened = await openDatabase({ url: db.url, empty: true, force: false });
  expect(opened.place).toBe(new URL(db.url).host + new URL(db.url).pathname);
  expect(await db.sql('SELECT * FROM outbox_event')).toEqual([]);
});
