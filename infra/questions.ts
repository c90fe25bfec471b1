// What a person may ask of an outbox, and how the answer reads.

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
import type { Store } from '../functions/shared/store.ts';

const text = { type: 'string' } as const;

type Question = (store: Store, selection: ParkedSelection, id: string | undefined) => Promise<string>;

/** What may be asked. */
export const QUESTIONS: Readonly<Record<string, Question>> = {
  where: async (store, _, id) => {
    if (id === undefined) throw new TypeError('where: expected an event id');
    return described(await findEvent(store, id));
  },
  parked: async (store, selection) =>
    table(await countEvents(store, 'PARKED'), selection) ?? 'nothing is parked',
  pending: async (store, selection) =>
    table(await countEvents(store, 'PENDING'), selection) ?? 'nothing is pending',
  replay: async (store, selection) => {
    const count = await replayParked(store, selected(selection));
    return `${events(count)} will be sent again${await whyNone(store, count, selection)}`;
  },
  discard: async (store, selection) => {
    const count = await discardParked(store, selected(selection));
    return `${events(count)} deleted${await whyNone(store, count, selection)}`;
  },
};

const events = (count: number) => (count === 1 ? '1 event' : `${count} events`);

/** One line for each kind that was chosen, under a head; undefined when there is none. */
function table(kinds: readonly EventKind[], { eventId, ...chosen }: ParkedSelection): string | undefined {
  if (eventId !== undefined) throw new TypeError('--id: `outbox where ID` tells of a single event');
  const { destination = '', type = '', reason = '' } = chosen;
  const rows = kinds.filter(
    (kind) =>
      [kind.destination, ''].includes(destination) &&
      [kind.type, ''].includes(type) &&
      kind.reason.startsWith(reason),
  );
  if (rows.length === 0) return undefined;
  const lines = rows.map(({ count, destination, type, reason, since, example }) =>
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

/** Asks the database and returns what to print. Throws TypeError when the command, an option or an argument is unknown. */
export async function run(store: Store, args: readonly string[]): Promise<string> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { id: text, destination: text, type: text, reason: text },
  });
  const [command = '', id, ...more] = positionals;
  const extra = command === 'where' ? more[0] : id;
  if (extra !== undefined) throw new TypeError(`${command}: unexpected argument ${JSON.stringify(extra)}`);
  const { id: eventId, ...others } = values;
  const selection: ParkedSelection = { ...others, ...(eventId === undefined ? {} : { eventId }) };
  const question = Object.hasOwn(QUESTIONS, command) ? QUESTIONS[command] : undefined;
  if (!question) throw new TypeError(`no command ${JSON.stringify(command)}`);
  return question(store, selection, id);
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
