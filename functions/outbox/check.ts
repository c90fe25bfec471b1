import { validate as isUuid } from 'uuid';
import { describeError, InvalidEventError } from '../shared/errors.ts';
import { isTraceParent } from '../shared/trace.ts';
import { escapeNoncharacters, isName, NAME } from './envelope.ts';
import type { EventInput } from './event.ts';

/** What a destination may be called. */
export const DESTINATION = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;
const ATTRIBUTES = new Set([
  'type',
  'payload',
  'source',
  'destinations',
  'id',
  'orderingKey',
  'dueAt',
  'delaySeconds',
  'traceParent',
]);
/** More than this, times four bytes a character, PostgreSQL might not fit into an index entry. */
const MAX_KEY_CHARACTERS = 512;
/** Ten years: a longer delay is a unit mistaken for another. */
const MAX_DELAY_SECONDS = 315_360_000;

/**
 * Checks everything about an event but its payload.
 *
 * @param at its path in messages, such as `events[2]`
 * @throws InvalidEventError naming the field
 */
export function checkAttributes(event: EventInput, at: string): void {
  const refuse = (field: string, problem: string): never => {
    throw new InvalidEventError(`${at}.${field}`, problem);
  };
  const unknown = Object.keys(event).find((key) => !ATTRIBUTES.has(key));
  if (unknown) refuse(unknown, `no such attribute; expected one of ${[...ATTRIBUTES].join(', ')}`);
  const { id, type, source, destinations, orderingKey, dueAt, delaySeconds, traceParent } = event;
  if (!isName(type)) refuse('type', `expected ${NAME}`);
  if (!isName(source)) refuse('source', `expected ${NAME}`);
  if (!Array.isArray(destinations) || destinations.length === 0) {
    refuse('destinations', 'expected an array of at least one destination name');
  }
  for (const name of destinations) {
    if (typeof name !== 'string' || !DESTINATION.test(name)) {
      refuse('destinations', 'expected names of 1 to 64 letters, digits, hyphens or underscores');
    }
  }
  if (orderingKey !== undefined && !isKey(orderingKey)) {
    refuse(
      'orderingKey',
      `expected text of 1 to ${MAX_KEY_CHARACTERS} characters without NUL or lone surrogates`,
    );
  }
  if (id !== undefined && !isUuid(id)) {
    refuse('id', `expected a UUID, got ${typeof id === 'string' ? JSON.stringify(id) : typeof id}`);
  }
  if (dueAt !== undefined && delaySeconds !== undefined)
    refuse('delaySeconds', 'give dueAt or this, not both');
  if (dueAt !== undefined && !(dueAt instanceof Date && isSaneYear(dueAt))) {
    refuse('dueAt', 'expected a Date between the years 1970 and 9999');
  }
  if (delaySeconds !== undefined && !isDelay(delaySeconds)) {
    refuse('delaySeconds', `expected a number of seconds from 0 to ${MAX_DELAY_SECONDS}`);
  }
  if (traceParent !== undefined && !isTraceParent(traceParent)) {
    refuse('traceParent', 'expected a W3C traceparent, such as 00-<32 hex digits>-<16 hex digits>-01');
  }
}

const isKey = (key: unknown) =>
  typeof key === 'string' &&
  key.length > 0 &&
  key.length <= MAX_KEY_CHARACTERS &&
  key.isWellFormed() &&
  !key.includes('\u0000');

const isDelay = (delay: unknown) => typeof delay === 'number' && delay >= 0 && delay <= MAX_DELAY_SECONDS;

// An invalid Date compares false with everything.
const isSaneYear = (date: Date) => date.getTime() >= 0 && date.getUTCFullYear() <= 9999;

/**
 * The text that is stored and sent: `JSON.stringify`, with the two characters escaped that SQS refuses.
 *
 * @throws InvalidEventError naming the path of a BigInt, or saying why the value has no JSON text
 */
export function payloadText(payload: unknown, at: string): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(payload);
  } catch (cause) {
    // A RangeError means that it is nested too deeply, for this search too.
    const path = cause instanceof RangeError ? undefined : pathOfBigInt(payload, `${at}.payload`);
    if (path) {
      throw new InvalidEventError(path, 'is a BigInt, which JSON cannot hold; give a string or a number', {
        cause,
      });
    }
    throw new InvalidEventError(`${at}.payload`, `has no JSON text (${describeError(cause)})`, { cause });
  }
  if (text === undefined)
    throw new InvalidEventError(`${at}.payload`, `is ${typeof payload}, not a JSON value`);
  return escapeNoncharacters(text);
}

function pathOfBigInt(value: unknown, path: string, seen = new Set<unknown>()): string | undefined {
  if (typeof value === 'bigint') return path;
  if (typeof value !== 'object' || value === null || seen.has(value)) return undefined;
  seen.add(value);
  for (const [key, inner] of Object.entries(value)) {
    const found = pathOfBigInt(inner, Array.isArray(value) ? `${path}[${key}]` : `${path}.${key}`, seen);
    if (found) return found;
  }
  return undefined;
}
