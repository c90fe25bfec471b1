import { v7 as newEventId } from 'uuid';
import { InvalidEventError } from '../shared/errors.ts';
import { storeOf, type TransactionClient } from '../shared/store.ts';
import { checkPayload, type EventInput, type EventTypes, type InputOf, type Schemas } from './event.ts';
import { writeEnvelope } from './envelope.ts';
import { checkAttributes, payloadText } from './check.ts';

/** The most that SQS takes in one message, in bytes of UTF-8. */
export const MAX_ENVELOPE_BYTES = 1_048_576;

interface Row {
  readonly eventId: string;
  readonly destination: string;
  readonly source: string;
  readonly type: string;
  readonly payload: string;
  readonly dueAtSeconds: number | null;
  readonly delaySeconds: number;
}

// WITH ORDINALITY keeps the given order in `sequence`.
const RECORD = `
INSERT INTO outbox_event (event_id, destination, source, type, payload, due_at)
SELECT r.event_id, r.destination, r.source, r.type, r.payload::json,
       coalesce(to_timestamp(r.due_at), now() + r.delay * interval '1 second')
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::float8[], $7::float8[])
     WITH ORDINALITY AS r(event_id, destination, source, type, payload, due_at, delay, position)
ORDER BY r.position
ON CONFLICT (event_id, destination) DO NOTHING`;

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
  if (!Array.isArray(events)) throw new InvalidEventError('events', 'expected an array');
  if (events.length === 0) return [];
  const rows = events.map(toRow);
  const column = <K extends keyof Row>(key: K) => rows.map((row) => row[key]);
  await storeOf(tx).execute(RECORD, [
    column('eventId'),
    column('destination'),
    column('source'),
    column('type'),
    column('payload'),
    column('dueAtSeconds'),
    column('delaySeconds'),
  ]);
  return column('eventId');
}

/** An event as `recorder` takes it: source and destination may come from the defaults. */
export type Recordable<E extends EventInput> = E extends EventInput
  ? Omit<E, 'source' | 'destination'> & Partial<Pick<E, 'source' | 'destination'>>
  : never;

/**
 * Makes a `recordEvents` for declared event types: payloads are typed and validated by their schemas before any SQL
 * (the value recorded is the one given, not the schema's output), and `defaults` fill in where and on whose behalf.
 */
export function recorder<S extends Schemas>(
  types: EventTypes<S>,
  defaults: { readonly source?: string; readonly destination?: string } = {},
): (tx: TransactionClient, events: readonly Recordable<InputOf<S>>[]) => Promise<string[]> {
  return async (tx, events) => {
    const complete = events.map((event) => ({ ...defaults, ...event }) as EventInput);
    for (const [index, { type, payload }] of complete.entries()) {
      const checked = await checkPayload(types, type, payload);
      if ('problem' in checked)
        throw new InvalidEventError(`events[${index}].${checked.field}`, checked.problem);
    }
    return recordEvents(tx, complete);
  };
}

function toRow(event: EventInput, index: number): Row {
  const at = `events[${index}]`;
  checkAttributes(event, at);
  const row = {
    eventId: event.id?.toLowerCase() ?? newEventId(),
    destination: event.destination,
    source: event.source,
    type: event.type,
    payload: payloadText(event.payload, at),
    dueAtSeconds: event.dueAt ? event.dueAt.getTime() / 1000 : null,
    delaySeconds: event.delaySeconds ?? 0,
  };
  const bytes = Buffer.byteLength(writeEnvelope({ ...row, recordedAt: '2000-01-01T00:00:00.000000Z' }));
  if (bytes > MAX_ENVELOPE_BYTES) {
    throw new InvalidEventError(
      `${at}.payload`,
      `makes a message of ${bytes} bytes; at most ${MAX_ENVELOPE_BYTES} fit (store large data elsewhere and record its address)`,
    );
  }
  return row;
}
