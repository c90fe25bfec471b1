// What a person may ask of an outbox, and how the answer reads.

import { parseArgs } from 'node:util';
import {
  countEvents,
  discardParked,
  findEvent,
  replayParked,
  type EventWhereabouts,
  type EventSelection,
} from '../functions/outbox/operate.ts';
import type { Store } from '../functions/shared/store.ts';

const text = { type: 'string' } as const;

type Question = (store: Store, selection: EventSelection, id: string | undefined) => Promise<string>;

/** What may be asked. */
export const QUESTIONS: Readonly<Record<string, Question>> = {
  where: async (store, _, id) => {
    if (id === undefined) throw new TypeError('where: expected an event id');
    return described(await findEvent(store, id));
  },
  parked: async (store, selection) => (await counted(store, 'PARKED', selection)) ?? 'nothing is parked',
  pending: async (store, selection) => (await counted(store, 'PENDING', selection)) ?? 'nothing is pending',
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

/** One line for each kind, under a head; undefined when there is none. */
async function counted(
  store: Store,
  state: 'PARKED' | 'PENDING',
  selection: EventSelection,
): Promise<string | undefined> {
  if (selection.eventId !== undefined) throw new TypeError('--id: `outbox where ID` tells of a single event');
  const kinds = await countEvents(store, state, selection);
  if (kinds.length === 0) return undefined;
  const lines = kinds.map(({ count, destination, type, reason, since, example }) =>
    [count, destination, type, reason || '-', since, example].join('\t'),
  );
  return ['count\tdestination\ttype\treason\tsince\texample', ...lines].join('\n');
}

function selected(selection: EventSelection): EventSelection {
  if (Object.keys(selection).length > 0) return selection;
  throw new TypeError('expected at least one of --id, --destination, --type, --reason');
}

/** Only parked events are touched: where the one that was named is instead. */
async function whyNone(store: Store, count: number, { eventId }: EventSelection): Promise<string> {
  if (count > 0 || eventId === undefined) return '';
  const places = await findEvent(store, eventId);
  return places.length === 0
    ? '; it is not in the outbox'
    : `; it is ${places.map(({ state, destination }) => `${state} (${destination})`).join(', ')}, not parked`;
}

/**
 * Reads a command line into what to ask of a database, before there is one.
 *
 * @returns what gives the text to print; undefined when no question is called so
 * @throws TypeError when an option or an argument is unknown
 */
export function questionOf(args: readonly string[]): ((store: Store) => Promise<string>) | undefined {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { id: text, destination: text, type: text, reason: text },
  });
  const [command = '', id, ...more] = positionals;
  const question = Object.hasOwn(QUESTIONS, command) ? QUESTIONS[command] : undefined;
  if (!question) return undefined;
  const extra = command === 'where' ? more[0] : id;
  if (extra !== undefined) throw new TypeError(`${command}: unexpected argument ${JSON.stringify(extra)}`);
  const { id: eventId, ...others } = values;
  const selection: EventSelection = { ...others, ...(eventId === undefined ? {} : { eventId }) };
  return (store) => question(store, selection, id);
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
