// `npm run outbox` here, `npx outbox` in a project that has the library: what a person asks of the outbox.

import { Pool, TypeOverrides } from 'pg';
import { parseArgs } from 'node:util';
import {
  countEvents,
  discardParked,
  findEvent,
  replayParked,
  type EventKind,
  type EventWhereabouts,
  type ParkedSelection,
} from '../functions/outbox/operate.ts';
import { connectionShape, readConfig, variableOf } from '../functions/shared/config.ts';
import { connectionSettings } from '../functions/shared/connection.ts';
import type { Store } from '../functions/shared/store.ts';
import { doctor } from './doctor.ts';
import { init } from './library/init.ts';

const HELP = `Asks about events, and settles parked ones. DATABASE_URL (or another of the functions' ways) says where.

  outbox where ID      where the event is, for each of its destinations
  outbox parked        parked events, counted by destination, type and reason, with the id of one of each
  outbox pending       the same of events that are not published yet, with what stood in the way last
  outbox replay …      sends parked events again, with fresh attempts
  outbox discard …     deletes parked events for good

  replay and discard take at least one of
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

const text = { type: 'string' } as const;

type Question = (store: Store, selection: ParkedSelection, id: string | undefined) => Promise<string>;

const QUESTIONS: Readonly<Record<string, Question>> = {
  where: async (store, _, id) => {
    if (id === undefined) throw new TypeError('where: expected an event id');
    return described(await findEvent(store, id));
  },
  parked: async (store) => table(await countEvents(store, 'PARKED')) ?? 'nothing is parked',
  pending: async (store) => table(await countEvents(store, 'PENDING')) ?? 'nothing is pending',
  replay: async (store, selection) => {
    const count = await replayParked(store, selected(selection));
    return `${count} events will be sent again${await whyNone(store, count, selection)}`;
  },
  discard: async (store, selection) => {
    const count = await discardParked(store, selected(selection));
    return `${count} events deleted${await whyNone(store, count, selection)}`;
  },
};

/** One line a kind, under a head; undefined when there is none. */
function table(kinds: readonly EventKind[]): string | undefined {
  if (kinds.length === 0) return undefined;
  const lines = kinds.map(({ count, destination, type, reason, since, example }) =>
    [count, destination, type, reason || '-', since, example].join('\t'),
  );
  return ['count\tdestination\ttype\treason\tsince\texample', ...lines].join('\n');
}

function selected(selection: ParkedSelection): ParkedSelection {
  if (Object.keys(selection).length > 0) return selection;
  throw new TypeError('expected at least one of --id, --destination, --type, --reason');
}

/** Only parked events are touched: where the one that was named is instead. */
async function whyNone(store: Store, count: number, { eventId }: ParkedSelection): Promise<string> {
  if (count > 0 || eventId === undefined) return '';
  const places = await findEvent(store, eventId);
  return places.length === 0
    ? '; it is not in the outbox'
    : `; it is ${places.map(({ state, destination }) => `${state} (${destination})`).join(', ')}, not parked`;
}

/** Runs one command on the database and returns what to print. Throws when the command or an option is unknown. */
export async function run(store: Store, args: readonly string[]): Promise<string> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { id: text, destination: text, type: text, reason: text },
  });
  const [command = '', id] = positionals;
  const { id: eventId, ...others } = values;
  const selection: ParkedSelection = { ...others, ...(eventId === undefined ? {} : { eventId }) };
  return found(QUESTIONS, command)(store, selection, id);
}

/** The command of that name; throws when there is none. */
function found<T>(commands: Readonly<Record<string, T>>, name: string): T {
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (command !== undefined) return command;
  const known = Object.keys({ ...QUESTIONS, ...COMMANDS }).join(', ');
  throw new TypeError(`no command "${name}"; expected one of ${known}\n\n${HELP}`);
}

function described(found: readonly EventWhereabouts[]): string {
  if (found.length === 0) return 'not in the outbox: never recorded, or pruned after it was published';
  return found
    .map(({ eventId, ...facts }) => {
      const known = Object.entries(facts).filter(([, value]) => value !== null && String(value) !== '');
      return [eventId, ...known.map(([name, value]) => `  ${name.padEnd(12)} ${String(value)}`)].join('\n');
    })
    .join('\n');
}

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
async function ask(args: readonly string[]): Promise<number> {
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
    process.stdout.write(`${await run(store, args)}\n`);
    return 0;
  } finally {
    await pool.end();
  }
}

const NEXT = `
Next:
  1. Include outbox/serverless.yml in yours, as it says at its top.
  2. prisma generate, and prisma migrate deploy (or dev).
  3. Put your events and effects in the place of the example's in outbox/events.ts and outbox/consumer.ts (zod is one
     validator; any Standard Schema will do), and record with recordEvents inside your transactions.
  4. serverless package, then outbox doctor: whether the numbers agree.
`;

const COMMANDS: Readonly<Record<string, (args: readonly string[]) => number | Promise<number>>> = {
  init: async (args) => {
    process.stdout.write(`${(await init(process.cwd(), args)).join('\n')}\n${NEXT}`);
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
    return Object.hasOwn(QUESTIONS, name) ? await ask(args) : await found(COMMANDS, name)(rest);
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}${hint(error)}\n`);
    return 1;
  }
}

if (import.meta.main) process.exitCode = await main(process.argv.slice(2));
