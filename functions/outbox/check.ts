import { validate as isUuid } from 'uuid';
import * as z from 'zod';
import { describeError, InvalidEventError } from '../shared/errors.ts';
import { isTraceParent } from '../shared/trace.ts';
import { escapeNoncharacters, isName, NAME } from './envelope.ts';

/** What a destination may be called. */
export const DESTINATION = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;
/** More than this, times four bytes a character, PostgreSQL might not fit into an index entry. */
const MAX_KEY_CHARACTERS = 512;
/** Ten years: a longer delay is a unit mistaken for another. */
const MAX_DELAY_SECONDS = 315_360_000;

const isKey = (key: string) => key.isWellFormed() && !key.includes('\0');

// A copy by the date's own time: a subclass may say something else each time that it is asked.
const dueAt = z
  .date()
  .transform((date) => new Date(Date.prototype.getTime.call(date)))
  .pipe(z.date().min(new Date(0)).max(new Date('9999-12-31T23:59:59.999Z')));

const attributes = z.strictObject({
  type: z.custom<string>(isName),
  source: z.custom<string>(isName),
  destinations: z.array(z.string().regex(DESTINATION)).min(1),
  id: z.custom<string>(isUuid).optional(),
  orderingKey: z.string().min(1).max(MAX_KEY_CHARACTERS).refine(isKey).optional(),
  dueAt: dueAt.optional(),
  delaySeconds: z.number().min(0).max(MAX_DELAY_SECONDS).optional(),
  traceParent: z.custom<string>(isTraceParent).optional(),
  payload: z.unknown(),
});

const EXPECTED: Readonly<Record<string, string>> = {
  type: NAME,
  source: NAME,
  destinations:
    'an array of at least one destination name, each of 1 to 64 letters, digits, hyphens or underscores',
  id: 'a UUID',
  orderingKey: `text of 1 to ${MAX_KEY_CHARACTERS} characters without NUL or lone surrogates`,
  dueAt: 'a Date between the years 1970 and 9999',
  delaySeconds: `a number of seconds from 0 to ${MAX_DELAY_SECONDS}, without a dueAt beside it`,
  traceParent: 'a W3C traceparent, such as 00-<32 hex digits>-<16 hex digits>-01',
};

/** An event with everything it needs. */
export const wholeEvent = attributes.refine(
  ({ dueAt, delaySeconds }) => dueAt === undefined || delaySeconds === undefined,
  { path: ['delaySeconds'] },
);
/** An event whose source and destinations may come from elsewhere. */
export const partialEvent = attributes.partial({ source: true, destinations: true });

/**
 * Reads everything about an event but its payload, once: what comes back no longer changes under the reader.
 *
 * @param at its path in messages, such as `events[2]`
 * @throws InvalidEventError naming the field; also when reading a stranger's object throws
 */
export function readEvent<S extends z.ZodType>(schema: S, event: unknown, at: string): z.output<S> {
  const { data, error } = safely(() => schema.safeParse(event), at);
  const issues = error?.issues ?? [];
  // A misspelt attribute explains another one that is missing.
  const issue = issues.find(({ code }) => code === 'unrecognized_keys') ?? issues[0];
  if (!issue) return data as z.output<S>;
  if (issue.code === 'unrecognized_keys') {
    const known = Object.keys(attributes.shape).join(', ');
    throw new InvalidEventError(`${at}.${issue.keys[0]}`, `no such attribute; expected one of ${known}`);
  }
  const [field] = issue.path;
  if (field === undefined) throw new InvalidEventError(at, 'expected an object');
  throw new InvalidEventError(`${at}.${String(field)}`, `expected ${EXPECTED[String(field)]}`);
}

function safely<T>(read: () => T, at: string): T {
  try {
    return read();
  } catch (cause) {
    throw new InvalidEventError(at, `cannot be read (${describeError(cause)})`, { cause });
  }
}

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
    const field = `${at}.payload`;
    // A RangeError means that it is nested too deeply, for this search too.
    const path = cause instanceof RangeError ? undefined : safely(() => pathOfBigInt(payload, field), field);
    if (path) {
      throw new InvalidEventError(path, 'is a BigInt, which JSON cannot hold; give a string or a number', {
        cause,
      });
    }
    throw new InvalidEventError(field, `has no JSON text (${describeError(cause)})`, { cause });
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
