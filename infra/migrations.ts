// Development's `prisma migrate`, without the native engine: see usage() for the commands. It works on the database
// in DATABASE_URL, or on a temporary one when that is not set.
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { deployMigrations } from '../functions/migrate/migrate.ts';
import { startPostgres } from './local/postgres.ts';
import { openSchemaEngine } from './schema-engine.ts';

const paths = { schema: 'prisma/schema.prisma', migrations: 'prisma/migrations' };
const DRIFT_EXIT_CODE = 2;

type Command = (url: string, argument: string | undefined) => Promise<number>;

const commands: Record<string, Command> = { check, new: create, deploy, status, resolve };

/** Reports what the schema says and the migrations do not. */
async function check(url: string): Promise<number> {
  const sql = await (await openSchemaEngine(url, paths)).missingSql();
  if (sql === null) {
    console.info(`${paths.schema} and ${paths.migrations} agree`);
    return 0;
  }
  console.error(`${paths.schema} and ${paths.migrations} differ; what is missing:\n\n${sql}`);
  return DRIFT_EXIT_CODE;
}

/** Writes that difference as a new migration, to be read and completed by hand. */
async function create(url: string, name: string | undefined): Promise<number> {
  if (!name || !/^\w+$/.test(name)) return usage('new needs a name of letters, digits and _');
  const sql = await (await openSchemaEngine(url, paths)).missingSql();
  if (sql === null) {
    console.info(`nothing to do: ${paths.schema} and ${paths.migrations} agree`);
    return 0;
  }
  const stamp = new Date().toISOString().replaceAll(/\D/g, '').slice(0, 14);
  const folder = path.join(paths.migrations, `${stamp}_${name}`);
  mkdirSync(folder);
  writeFileSync(path.join(folder, 'migration.sql'), sql);
  console.info(`wrote ${folder}/migration.sql`);
  return 0;
}

async function deploy(url: string): Promise<number> {
  const applied = await deployMigrations({
    connectionString: url,
    directory: paths.migrations,
    log: console.info,
  });
  if (applied.length === 0) console.info('nothing to apply');
  return 0;
}

async function status(url: string): Promise<number> {
  console.info(JSON.stringify(await (await openSchemaEngine(url, paths)).diagnose(), null, 2));
  return 0;
}

async function resolve(url: string, name: string | undefined): Promise<number> {
  if (!name) return usage('resolve needs the name of a failed migration');
  await (await openSchemaEngine(url, paths)).markRolledBack(name);
  console.info(`${name} will be tried again by the next deploy`);
  return 0;
}

function usage(problem: string): number {
  console.error(`${problem}

npm run schema -- check            exit ${DRIFT_EXIT_CODE} when schema.prisma and the migrations differ
npm run schema -- new <name>       write that difference as a migration
npm run schema -- deploy           apply what the database does not have
npm run schema -- status           compare the database's history with the files
npm run schema -- resolve <name>   let a failed migration be tried again`);
  return 1;
}

async function main(name: string | undefined, argument: string | undefined): Promise<number> {
  const command = name === undefined ? undefined : commands[name];
  if (!command) return usage(`unknown command ${name ?? '(none)'}`);
  const url = process.env['DATABASE_URL'];
  if (url) return command(url, argument);

  const postgres = await startPostgres();
  try {
    return await command(postgres.url, argument);
  } finally {
    await postgres.stop();
  }
}

try {
  process.exitCode = await main(process.argv[2], process.argv[3]);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
// The engine's connections and its lock timer would keep the process alive for ten seconds.
process.exit();
