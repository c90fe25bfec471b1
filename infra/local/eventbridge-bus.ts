// What EventBridge accepts, as its API reference and developer guide say, and what a bus keeps.

import { randomUUID } from 'node:crypto';
import { ACCOUNT, REGION } from './template.ts';

const MAXIMUM_ENTRIES = 10;
/** "The total entry size must be less than 1MB" (API reference); it was 256 KB until 2026. */
export const MAXIMUM_CALL_BYTES = 1_048_576;
/** EventBridge counts a `Time` as 14 bytes, however long its text. */
const TIME_BYTES = 14;
const MAXIMUM_DETAIL_TYPE_CHARACTERS = 128;

/** One entry as it travels; `Time` in seconds since 1970. */
export interface BusEntry {
  Source?: string;
  DetailType?: string;
  Detail?: string;
  EventBusName?: string;
  Time?: number;
  Resources?: string[];
}

/** An event that a bus has taken. `EventBusName` is a name also where an ARN was given. */
export type BusEvent = BusEntry &
  Required<Pick<BusEntry, 'Source' | 'DetailType' | 'Detail' | 'EventBusName'>> & { EventId: string };

/** One place of the answer's list; neither id nor code: EventBridge says nothing of the entry. */
export type EntryResult = { EventId?: string } | { ErrorCode: string; ErrorMessage: string };

/** The buses there are, and what they took. */
export interface Buses {
  names: readonly string[];
  /** Of one call. */
  maxBytes: number;
  /** In order of arrival. */
  events: BusEvent[];
}

/** The error that refuses a whole call. */
export class BusFault extends Error {
  override readonly name = 'BusFault';
  readonly code: string;
  readonly status: number;
  constructor(code: string, message: string, status = 400) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

/** The result of an entry that is not taken. */
export const refused = (ErrorCode: string, ErrorMessage = `${ErrorCode} by script`): EntryResult => ({
  ErrorCode,
  ErrorMessage,
});

/** Bytes of an entry, as the developer guide counts them. */
export const entryBytes = ({ Time, Source = '', DetailType = '', Detail = '', Resources = [] }: BusEntry) =>
  [Source, DetailType, Detail, ...Resources].reduce(
    (sum, part) => sum + Buffer.byteLength(part),
    Time === undefined ? 0 : TIME_BYTES,
  );

/** The message body that a rule's SQS target gets. */
export const targetBody = (event: BusEvent): string =>
  JSON.stringify({
    version: '0',
    id: event.EventId,
    'detail-type': event.DetailType,
    source: event.Source,
    account: ACCOUNT,
    time: new Date((event.Time ?? 0) * 1_000).toISOString(),
    region: REGION,
    resources: event.Resources ?? [],
    detail: JSON.parse(event.Detail) as unknown,
  });

/**
 * Takes every entry that the rules allow and `fault` has no result for. An event for a bus that does not exist is
 * accepted and dropped, as the service does it.
 *
 * @throws BusFault for the call as a whole
 */
export function putEvents(
  { names, maxBytes, events }: Buses,
  entries: BusEntry[],
  fault: (index: number) => EntryResult | undefined = () => undefined,
): EntryResult[] {
  checkCall(entries, maxBytes);
  return entries.map((entry, index) => {
    const result = fault(index) ?? problemOf(entry);
    if (result) return result;
    const EventId = randomUUID();
    const EventBusName = (entry.EventBusName ?? 'default').replace(/^arn:.*event-bus\//, '');
    if (names.includes(EventBusName)) events.push({ ...(entry as BusEvent), EventBusName, EventId });
    return { EventId };
  });
}

function checkCall(entries: BusEntry[], maxBytes: number): void {
  if (entries.length === 0 || entries.length > MAXIMUM_ENTRIES) {
    const bound = entries.length === 0 ? 'greater than or equal to 1' : 'less than or equal to 10';
    const problem = `Value at 'entries' failed to satisfy constraint: Member must have length ${bound}`;
    throw new BusFault('ValidationException', `1 validation error detected: ${problem}`);
  }
  if (entries.reduce((sum, entry) => sum + entryBytes(entry), 0) > maxBytes) {
    throw new BusFault('ValidationException', 'Total size of the entries in the request is over the limit.');
  }
}

function problemOf(entry: BusEntry): EntryResult | undefined {
  const invalid = (name: string, reason: string) =>
    refused('InvalidArgument', `Parameter ${name} is not valid. Reason: ${reason}`);
  const missing = (['Source', 'DetailType', 'Detail'] as const).find((name) => !entry[name]);
  if (missing) return invalid(missing, `${missing} is a required argument.`);
  if ((entry.DetailType ?? '').length > MAXIMUM_DETAIL_TYPE_CHARACTERS) {
    return invalid('DetailType', `it is longer than ${MAXIMUM_DETAIL_TYPE_CHARACTERS} characters.`);
  }
  return isObject(entry.Detail ?? '') ? undefined : refused('MalformedDetail', 'Detail is malformed.');
}

function isObject(json: string): boolean {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}
