import { execFile } from 'node:child_process';
import { appendFile, cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { beforeEach, expect, test } from 'vitest';
import {
  EditedMigrationError,
  MigrationLockError,
  UnresolvedMigrationError,
} from '../functions/migrate/errors.ts';
import { deployMigrations } from '../functions/migrate/migrate.ts';
import { afterwards } from './support/cleanup.ts';
import { createDatabase, openSession, type TestDatabase } from './support/database.ts';

const OUTBOX = '20261130000000_outbox';
const EXAMPLE = '20261130000100_example';
const PARKED = '20261201000000_outbox_parked';
const root = path.resolve(import.meta.dirname, '..');

/** Prisma's engine takes a second to load on a quiet machine, and many where every core is busy. */
const ENGINE_TIMEOUT_MS = 120_000;

let db: TestDatabase;
/** A copy of the repository's prisma/ folder that a test may change. */
let prismaFolder: string;

const directory = (): string => path.join(prismaFolder, 'migrations');
const deploy = (log?: (line: string) => void): Promise<string[]> =>
  deployMigrations({ connectionString: db.url, directory: directory(), ...(log ? { log } : {}) });

beforeEach(async () => {
  db = await createDatabase({ migrated: false });
  const scratch = await mkdtemp(path.join(tmpdir(), 'outbox-migrate-'));
  afterwards(() => rm(scratch, { recursive: true }));
  prismaFolder = path.join(scratch, 'prisma');
  for (const part of ['migrations', 'schema.prisma']) {
    await cp(path.join(root, 'prisma', part), path.join(prismaFolder, part), { recursive: true });
  }
});

async function addMigration(name: string, sql: string): Promise<void> {
  await mkdir(path.join(directory(), name));
  await writeFile(path.join(directory(), name, 'migration.sql'), sql);
}

/** Runs infra/migrations.ts over the copy; that is Prisma's own schema engine, except for `deploy`. */
async function schemaEngine(...args: string[]): Promise<{ code: number; output: string }> {
  const script = path.join(root, 'infra/migrations.ts');
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [script, ...args], {
      cwd: path.dirname(prismaFolder),
      env: { ...process.env, DATABASE_URL: db.url },
    });
    return { code: 0, output: stdout };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    return { code, output: stdout + stderr };
  }
}

test('a fresh database gets every migration, and the second run finds nothing to do', async () => {
  const lines: string[] = [];
  expect(await deploy((line) => lines.push(line))).toEqual([OUTBOX, EXAMPLE, PARKED]);
  expect(await deploy()).toEqual([]);
  expect(lines).toEqual([OUTBOX, EXAMPLE, PARKED].map((name) => `applied migration ${name}`));
  expect(await db.sql('SELECT count(*) FROM outbox_event')).toEqual([{ count: 0 }]);
});

test(
  "Prisma's own engine finds the history in sync, and the tables as schema.prisma says",
  async () => {
    await deploy();
    const status = await schemaEngine('status');
    expect(JSON.parse(status.output)).toEqual({
      editedMigrationNames: [],
      failedMigrationNames: [],
      hasMigrationsTable: true,
      history: null,
    });
    expect((await schemaEngine('check')).code).toBe(0);
  },
  ENGINE_TIMEOUT_MS,
);

test(
  'a schema that the migrations do not make is reported as drift, the partial index included',
  async () => {
    const schema = path.join(prismaFolder, 'schema.prisma');
    const text = await readFile(schema, 'utf8');
    await writeFile(
      schema,
      text.replace(`raw("state = 'PENDING' AND ordering_key`, `raw("state = 'PARKED' AND ordering_key`),
    );
    const drift = await schemaEngine('check');
    expect(drift.code).toBe(2);
    expect(drift.output).toContain(`WHERE (state = 'PARKED' AND ordering_key IS NULL)`);
  },
  ENGINE_TIMEOUT_MS,
);

test('four deploys at once apply each migration once', async () => {
  const runs = await Promise.all([deploy(), deploy(), deploy(), deploy()]);
  expect(runs.flat()).toEqual([OUTBOX, EXAMPLE, PARKED]);
  expect(await db.sql('SELECT count(*) FROM _prisma_migrations')).toEqual([{ count: 3 }]);
});

test(
  'a failing file leaves nothing behind and stops every later deploy until it is resolved',
  async () => {
    await addMigration('20270101000000_half', `CREATE TABLE half (id int); SELECT 'not; a; number'::int;`);
    await addMigration('20270101000001_next', 'CREATE TABLE next (id int);');
    await expect(deploy()).rejects.toThrow(
      /^P3018: migration 20270101000000_half failed: invalid input syntax/,
    );
    expect(await db.sql(`SELECT to_regclass('half') AS half, to_regclass('next') AS next`)).toEqual([
      { half: null, next: null },
    ]);

    await expect(deploy()).rejects.toThrow(UnresolvedMigrationError);
    await expect(deploy()).rejects.toThrow(/^P3009: migration 20270101000000_half, /);
    const [row] = await db.sql(`SELECT logs FROM _prisma_migrations WHERE finished_at IS NULL`);
    expect(row?.['logs']).toContain('invalid input syntax');

    expect((await schemaEngine('resolve', '20270101000000_half')).code).toBe(0);
    await writeFile(
      path.join(directory(), '20270101000000_half', 'migration.sql'),
      'CREATE TABLE half (id int);',
    );
    expect(await deploy()).toEqual(['20270101000000_half', '20270101000001_next']);
  },
  ENGINE_TIMEOUT_MS,
);

test('a failing file with its own BEGIN is reported with its own error', async () => {
  await addMigration('20270101000000_begin', 'BEGIN; CREATE TABLE begun (id int); SELECT 1 / 0; COMMIT;');
  await expect(deploy()).rejects.toThrow(/division by zero/);
  expect(
    await db.sql(`SELECT logs LIKE '%division%' AS noted FROM _prisma_migrations WHERE logs <> ''`),
  ).toEqual([{ noted: true }]);
});

test('a session killed in the middle of a file is a failure, not a crash, and leaves nothing', async () => {
  await addMigration(
    '20270101000000_killed',
    'CREATE TABLE killed (id int); SELECT pg_terminate_backend(pg_backend_pid());',
  );
  await expect(deploy()).rejects.toThrow(/20270101000000_killed failed/);
  expect(await db.sql(`SELECT to_regclass('killed') AS killed`)).toEqual([{ killed: null }]);
  await expect(deploy()).rejects.toThrow(UnresolvedMigrationError);
});

test('an applied file that was edited is refused with both checksums, and nothing after it is applied', async () => {
  await deploy();
  await appendFile(path.join(directory(), OUTBOX, 'migration.sql'), '-- an afterthought\n');
  await addMigration('20270101000000_later', 'CREATE TABLE later (id int);');
  const error = await deploy().catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(EditedMigrationError);
  expect((error as Error).message).toMatch(
    new RegExp(`^Migration ${OUTBOX} was edited.* checksum [0-9a-f]{64}, the file has [0-9a-f]{64}`),
  );
  expect(await db.sql(`SELECT to_regclass('later') AS later`)).toEqual([{ later: null }]);
});

test('a checkout with Windows line ends is not an edit', async () => {
  await deploy();
  const file = path.join(directory(), OUTBOX, 'migration.sql');
  await writeFile(file, (await readFile(file, 'utf8')).replaceAll('\n', '\r\n'));
  expect(await deploy()).toEqual([]);
});

test('an older release over a newer database applies nothing and says what it does not know', async () => {
  await deploy();
  await rm(path.join(directory(), EXAMPLE), { recursive: true });
  const lines: string[] = [];
  expect(await deploy((line) => lines.push(line))).toEqual([]);
  expect(lines).toEqual([`the database has migration ${EXAMPLE}, which this release does not know`]);
});

test('while Prisma holds its lock, a deploy waits its turn, not for ever', async () => {
  const session = await openSession(db.url);
  await session.query('SELECT pg_advisory_lock(72707369)');
  const waiting = deployMigrations({ connectionString: db.url, directory: directory(), lockWaitSeconds: 1 });
  await expect(waiting).rejects.toThrow(MigrationLockError);
  expect(await db.sql(`SELECT to_regclass('_prisma_migrations') AS history`)).toEqual([{ history: null }]);
});
