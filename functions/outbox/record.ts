import { v7 as newEventId } from 'uuid';
import { InvalidEventError } from '../shared/errors.ts';
import { activeTraceParent } from '../shared/trace.ts';
import { storeOf, type Store, type TransactionClient } from '../shared/store.ts';
import { checkPayload, type EventInput, type EventTypes, type InputOf, type Schemas } from './event.ts';
import { writeEnvelope } from './envelope.ts';
import { partialEvent, payloadText, readEvent, wholeEvent } from './check.ts';

/** The most that SQS takes in one message, in bytes of UTF-8. */
export const MAX_ENVELOPE_BYTES = 1_048_576;
/** As long as any. */
const SOME_TIME = '2000-01-01T00:00:00.000000Z';

// All rows in one parameter: PostgreSQL plans that in half the time that an array for each column takes.
const ROWS = `
json_to_recordset($1::json) AS r("eventId" uuid, destination text, source text, type text, "orderingKey" text, payload text,
  "traceParent" text, "dueAt" timestamptz, "delaySeconds" float8, position int)`;

// ORDER BY keeps the given order in `sequence`.
const insertFrom = (rows: string) => `
INSERT INTO outbox_event (event_id, destination, source, type, ordering_key, payload, trace_parent, due_at)
SELECT "eventId", destination, source, type, "orderingKey", payload::json, "traceParent",
       coalesce("dueAt", now() + "delaySeconds" * interval '1 second')
FROM ${rows}
ORDER BY position
ON CONFLICT (event_id, source, destination) DO NOTHING`;

const RECORD = insertFrom(ROWS);

// Locks each ordering key until the transaction ends, before any sequence number is drawn: within a key, the order of
// `sequence` is the order of commit. In order of the lock numbers, so that two statements cannot deadlock.
const RECORD_KEYED = `
WITH held AS MATERIALIZED (
  SELECT pg_advisory_xact_lock(number) FROM (
    SELECT DISTINCT hashtextextended('outbox ' || key, 0) AS number FROM unnest($2::text[]) AS key
    ORDER BY number) AS numbers)
${insertFrom(`(SELECT count(*) FROM held) AS all_held, ${ROWS}`)}`;

/**
 * Records events inside the caller's transaction: they exist if and only if it commits. Nothing is sent yet.
 * One statement for all of them; recording the same (id, destination) again changes nothing.
 *
 * @param tx what `prisma.$transaction(async (tx) => …)` hands to its callback; a root client does not type-check
 * @returns the event ids, one for each event, in the order given
 * @throws InvalidEventError before any SQL, naming the event and the field
 * @throws TypeError when `tx` is not a transaction client
 */
export async function recordEvents(tx: TransactionClient, events: readonly EventInput[]): Promise<string[]> {
  if (typeof tx?.$executeRawUnsafe !== 'function' || '$connect' in tx) {
    throw new TypeError(
      'recordEvents: expected the transaction client (tx of prisma.$transaction(async (tx) => …)), so that the events commit with the business rows or not at all',
    );
  }
  assertArray(events);
  if (events.length === 0) return [];
  const traceParent = activeTraceParent();
  const drafts = Array.from(events, (event, index) => toDraft(event, `events[${index}]`, traceParent));
  await insert(storeOf(tx), drafts);
  return drafts.map(({ eventId }) => eventId);
}

async function insert(store: Store, drafts: readonly Draft[]): Promise<void> {
  const rows = drafts.flatMap(({ destinations, ...draft }) =>
    destinations.map((destination) => ({ ...draft, destination })),
  );
  const keys = drafts.flatMap(({ orderingKey }) => orderingKey ?? []);
  try {
    const values = [JSON.stringify(rows.map((row, position) => ({ ...row, position })))];
    await (keys.length > 0 ? store.execute(RECORD_KEYED, [...values, keys]) : store.execute(RECORD, values));
  } catch (cause) {
    // A string has at most 512 Mi characters; nothing was sent.
    if (!(cause instanceof RangeError)) throw cause;
    throw new InvalidEventError('events', 'are too large for one statement; record them in several calls', {
      cause,
    });
  }
}

/** An event as `recorder` takes it: source and destinations may come from its defaults. */
export type Recordable<E extends EventInput> = E extends EventInput
  ? Omit<E, 'source' | 'destinations'> & Partial<Pick<E, 'source' | 'destinations'>>
  : never;

/** What a recorder fills in. */
export interface RecorderOptions<S extends Schemas> {
  /** CloudEvents source of events that give none. */
  readonly source?: string;
  /** Where each type goes, unless the event says otherwise. */
  readonly routes?: { readonly [T in keyof S & string]?: readonly string[] };
  /** All destinations there are; those of the routes when absent. */
  readonly destinations?: readonly string[];
}

/**
 * Makes a `recordEvents` for declared event types: payloads are typed and validated by their schemas before any SQL
 * (what is recorded is the value given, not the schema's output), the options fill in where an event goes and on whose
 * behalf, and a destination that they do not know is an error here, not later.
 *
 * @throws TypeError at once when a route leads to a destination that there is not
 * @throws InvalidEventError (the recorder) naming the event and the field
 */
export function recorder<S extends Schemas>(
  types: EventTypes<S>,
  options: RecorderOptions<S> = {},
): (tx: TransactionClient, events: readonly Recordable<InputOf<S>>[]) => Promise<string[]> {
  const destinationsOf = router(options);
  const complete = async (given: unknown, at: string): Promise<EventInput> => {
    const event = readEvent(partialEvent, given, at);
    const checked = await checkPayload(types, event.type, event.payload);
    if ('problem' in checked) throw new InvalidEventError(`${at}.${checked.field}`, checked.problem);
    const destinations = destinationsOf(event.type, event.destinations, at);
    // Whether there is a source now, recordEvents says.
    return { ...event, source: event.source ?? options.source, destinations } as EventInput;
  };
  return async (tx, events) => {
    assertArray(events);
    const all: EventInput[] = [];
    // One after the other: a schema may ask a database, and the first problem is the one that is told.
    for (const [index, event] of events.entries()) all.push(await complete(event, `events[${index}]`));
    return recordEvents(tx, all);
  };
}

/** Makes what says where an event goes: to what it names itself, or along the route of its type. */
function router<S extends Schemas>({ routes = {}, destinations }: RecorderOptions<S>) {
  const byType: Readonly<Record<string, readonly string[] | undefined>> = routes;
  const routed = Object.values(byType).flatMap((names) => names ?? []);
  const known = new Set(destinations ?? routed);
  const strangerIn = (names: readonly string[]) => [names].flat().find((name) => !known.has(name));
  const expected = `expected some of ${[...known].join(', ')}`;
  const lost = strangerIn(routed);
  if (lost !== undefined)
    throw new TypeError(`recorder: a route leads to ${JSON.stringify(lost)}; ${expected}`);
  return (type: string, own: readonly string[] | undefined, at: string): readonly string[] => {
    const refuse = (problem: string) => new InvalidEventError(`${at}.destinations`, problem);
    const names = own ?? (Object.hasOwn(byType, type) ? byType[type] : undefined);
    if (names === undefined) {
      throw refuse(`there is no route for ${JSON.stringify(type)}; give one, or destinations`);
    }
    const stranger = strangerIn(names);
    if (stranger !== undefined) throw refuse(`no destination ${JSON.stringify(stranger)}; ${expected}`);
    return names;
  };
}

function assertArray(events: unknown): asserts events is readonly unknown[] {
  if (!Array.isArray(events)) throw new InvalidEventError('events', 'expected an array');
}

/** A row of the outbox, but for its destinations. */
interface Draft {
  readonly eventId: string;
  readonly destinations: readonly string[];
  readonly source: string;
  readonly type: string;
  readonly orderingKey: string | null;
  readonly traceParent: string | null;
  readonly payload: string;
  /** RFC 3339. */
  readonly dueAt: string | null;
  readonly delaySeconds: number;
}

function toDraft(given: EventInput, at: string, activeTrace: string | null): Draft {
  const event = readEvent(wholeEvent, given, at);
  const draft = {
    eventId: event.id?.toLowerCase() ?? newEventId(),
    destinations: [...new Set(event.destinations)],
    source: event.source,
    type: event.type,
    orderingKey: event.orderingKey ?? null,
    traceParent: event.traceParent ?? activeTrace,
    payload: payloadText(event.payload, at),
    dueAt: event.dueAt?.toISOString() ?? null,
    delaySeconds: event.delaySeconds ?? 0,
  };
  const dueTime = draft.dueAt !== null || draft.delaySeconds > 0 ? SOME_TIME : null;
  const bytes = Buffer.byteLength(writeEnvelope({ ...draft, recordedAt: SOME_TIME, dueTime }));
  if (bytes > MAX_ENVELOPE_BYTES) {
    throw new InvalidEventError(
      `${at}.payload`,
      `makes a message of ${bytes} bytes; at most ${MAX_ENVELOPE_BYTES} fit (store large data elsewhere and record its address)`,
    );
  }
  return draft;
}
