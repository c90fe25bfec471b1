// `npm run outbox` here, `npx outbox` in a project that has the library: what a person asks of the outbox.

import { Pool, TypeOverrides } from 'pg';
import { connectionShape, readConfig, variableOf } from '../functions/shared/config.ts';
import { connectionSettings } from '../functions/shared/connection.ts';
import type { Store } from '../functions/shared/store.ts';
import { doctor } from './doctor.ts';
import { init } from './library/init.ts';
import { QUESTIONS, questionOf } from './questions.ts';

const HELP = `Asks about events, and settles parked ones. DATABASE_URL (or another of the functions' ways) says where.

  outbox where ID      where the event is, for each of its destinations
  outbox parked        parked events, counted by destination, type and reason, with the id of one of each
  outbox pending       the same of events that are not published yet, with what stood in the way last
  outbox replay …      sends parked events again, with fresh attempts
  outbox discard …     deletes parked events for good

  replay and discard take at least one of these, parked and pending any but --id
  --id ID               the event's id
  --destination NAME
  --type TYPE
  --reason BEGINNING    how the reason begins, such as TooLarge

  outbox doctor …      whether the settings agree with one another; asks no database

  --template FILE           a packaged template (default: what \`serverless package\` wrote)
  --max-connections N       also whether all pools together fit into the server's max_connections
  --function NAME --env     instead: this environment's variables, as that function would start with them
  --function NAME --variables FILE
                            instead: what \`aws lambda get-function-configuration\` printed

  outbox init …        gives a project of your own what the outbox needs, and keeps what is there

  --schema PATH             its Prisma schema, a file or a folder (default: where Prisma looks)
  --migrations PATH         its migrations (default: where Prisma looks)
  --folder PATH             where the functions go (default: outbox)

In the relay's own repository: npm run outbox -- COMMAND.
`;

/** Prints every contradiction and what was not looked at, and returns the exit code. */
async function examine(args: readonly string[]): Promise<number> {
  const { problems, notes } = await doctor(args, process.env);
  const lines = [...(problems.length === 0 ? ['The settings agree.'] : problems), ...notes];
  process.stdout.write(`${lines.join('\n')}\n`);
  return problems.length === 0 ? 0 : 1;
}

/** PostgreSQL's bigint, which pg hands out as text. */
const INT8 = 20;

/** Without Prisma: whose client it would be depends on the project. */
async function ask(question: (store: Store) => Promise<string>): Promise<number> {
  const keys = Object.keys(connectionShape).map(variableOf);
  const environment = Object.fromEntries(keys.map((key) => [key, process.env[key]]));
  const settings = await connectionSettings(readConfig(connectionShape, environment))();
  const types = new TypeOverrides();
  types.setTypeParser(INT8, BigInt);
  const pool = new Pool({ ...settings, types, max: 1, connectionTimeoutMillis: 5_000 });
  const store: Store = {
    query: async <Row>(text: string, values: readonly unknown[]) =>
      (await pool.query(text, [...values])).rows as Row[],
    execute: async (text, values) => (await pool.query(text, [...values])).rowCount ?? 0,
  };
  try {
    process.stdout.write(`${await question(store)}\n`);
    return 0;
  } finally {
    await pool.end();
  }
}

const NEXT = `
Next:
  1. Include the serverless.yml that was written in yours, as it says at its top.
  2. prisma generate, and prisma migrate deploy (or dev).
  3. Put your events and effects in the place of the example's in events.ts and consumer.ts (zod is one validator; any
     Standard Schema will do), and record with recordEvents inside your transactions.
  4. serverless package, then outbox doctor: whether the numbers agree.
`;

const COMMANDS: Readonly<Record<string, (args: readonly string[]) => number | Promise<number>>> = {
  init: async (args) => {
    const lines = await init(process.cwd(), args);
    const isSet = lines.every((line) => line.startsWith('kept'));
    process.stdout.write(`${lines.join('\n')}\n${isSet ? '' : NEXT}`);
    return 0;
  },
  doctor: examine,
};

/** PostgreSQL's code for a table that is not there. */
const UNDEFINED_TABLE = '42P01';
const hint = (error: unknown) =>
  (error as { code?: unknown } | null)?.code === UNDEFINED_TABLE
    ? '; its migrations are not applied to this database, or it is another one'
    : '';

/** Carries out one command and returns the exit code; what was wrong goes to stderr, in one sentence. */
export async function main(args: readonly string[]): Promise<number> {
  const [name, ...rest] = args;
  if (name === undefined || args.includes('--help')) {
    process.stdout.write(HELP);
    return 0;
  }
  try {
    const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
    if (command) return await command(rest);
    const question = questionOf(args);
    if (question) return await ask(question);
    const known = Object.keys({ ...QUESTIONS, ...COMMANDS }).join(', ');
    throw new TypeError(`no command "${name}"; expected one of ${known}\n\n${HELP}`);
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}${hint(error)}\n`);
    return 1;
  }
}

if (import.meta.main) process.exitCode = await main(process.argv.slice(2));
