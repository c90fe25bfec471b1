// `npm run outbox`: what a person asks of the outbox, on the database of DATABASE_URL.

import { parseArgs } from 'node:util';
import {
  countParked,
  discardParked,
  findEvent,
  replayParked,
  type EventWhereabouts,
  type ParkedSelection,
} from '../functions/outbox/operate.ts';
import { databaseShape, readConfig, variableOf } from '../functions/shared/config.ts';
import { connect } from '../functions/shared/database.ts';
import { storeOf, type Store } from '../functions/shared/store.ts';
import { doctor } from './doctor.ts';

const HELP = `Asks about events, and settles parked ones. DATABASE_URL (or another of the functions' ways) says where.

  npm run outbox -- where ID      where the event is, for each of its destinations
  npm run outbox -- parked        parked events, counted by destination, type and reason
  npm run outbox -- replay …      sends parked events again, with fresh attempts
  npm run outbox -- discard …     deletes parked events for good

  replay and discard take at least one of
  --id ID               the event's id
  --destination NAME
  --type TYPE
  --reason BEGINNING    how the reason begins, such as TooLarge

  npm run outbox -- doctor …      whether the settings agree with one another; asks no database

  --template FILE           a packaged template (default: what npm run package wrote)
  --max-connections N       also whether all pools together fit into the server's max_connections
  --function NAME --env     instead: this environment's variables, as that function would start with them
  --function NAME --variables FILE
                            instead: what \`aws lambda get-function-configuration\` printed
`;

const text = { type: 'string' } as const;

/** Runs one command and returns what to print. Throws when the command or an option is unknown. */
export async function run(store: Store, args: readonly string[]): Promise<string> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { id: text, destination: text, type: text, reason: text },
  });
  const [command = '', id] = positionals;
  const { id: eventId, ...others } = values;
  const selection: ParkedSelection = { ...others, ...(eventId === undefined ? {} : { eventId }) };
  switch (command) {
    case 'where':
      if (id === undefined) throw new TypeError('where: expected an event id');
      return described(await findEvent(store, id));
    case 'parked': {
      const kinds = await countParked(store);
      const lines = kinds.map(
        ({ count, ...kind }) => `${count}\t${kind.destination}\t${kind.type}\t${kind.reason}`,
      );
      return lines.join('\n') || 'nothing is parked';
    }
    case 'replay':
      return `${await replayParked(store, selection)} events will be sent again`;
    case 'discard':
      return `${await discardParked(store, selection)} events deleted`;
    default:
      throw new TypeError(`no command "${command}"; expected where, parked, replay or discard\n\n${HELP}`);
  }
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

async function ask(args: readonly string[]): Promise<number> {
  const keys = Object.keys(databaseShape).map(variableOf);
  const environment = Object.fromEntries(keys.map((key) => [key, process.env[key]]));
  const prisma = connect(readConfig(databaseShape, environment));
  try {
    process.stdout.write(`${await run(storeOf(prisma), args)}\n`);
    return 0;
  } finally {
    await prisma.$disconnect();
  }
}

if (import.meta.main) {
  const args = process.argv.slice(2);
  if (args.length === 0 || args.includes('--help')) {
    process.stdout.write(HELP);
  } else {
    try {
      process.exitCode = args[0] === 'doctor' ? await examine(args.slice(1)) : await ask(args);
    } catch (error) {
      process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
      process.exitCode = 1;
    }
  }
}
