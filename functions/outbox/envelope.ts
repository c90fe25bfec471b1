import { validate as isUuid } from 'uuid';
import { isTraceParent } from '../shared/trace.ts';

/** A recorded event as its row holds it: `payload` is JSON text, times are RFC 3339 in UTC. */
export interface RecordedEvent {
  readonly eventId: string;
  readonly source: string;
  readonly type: string;
  readonly orderingKey: string | null;
  readonly traceParent?: string | null;
  readonly payload: string;
  readonly recordedAt: string;
  /** Of an event that was recorded for later, when that was. */
  readonly dueTime?: string | null;
}

/**
 * U+FFFE and U+FFFF are valid in JSON but SQS refuses them in a message; as escapes they mean the same.
 * In JSON text they can only stand inside a string, so the text stays valid.
 */
export function escapeNoncharacters(json: string): string {
  return json.replace(/[\uFFFE\uFFFF]/g, (c) => `\\u${c.charCodeAt(0).toString(16)}`);
}

/**
 * The message body: a CloudEvents 1.0 JSON event, put together around the payload's text without parsing it,
 * so that the consumer gets the bytes the producer recorded.
 */
export function writeEnvelope(event: RecordedEvent): string {
  const attributes = JSON.stringify({
    specversion: '1.0',
    id: event.eventId,
    source: event.source,
    type: event.type,
    time: event.recordedAt,
    datacontenttype: 'application/json',
    ...(event.orderingKey === null ? {} : { partitionkey: event.orderingKey }),
    ...(event.dueTime ? { duetime: event.dueTime } : {}),
    ...(event.traceParent ? { traceparent: event.traceParent } : {}),
  });
  return `${escapeNoncharacters(attributes).slice(0, -1)},"data":${event.payload}}`;
}

/** A CloudEvent as it arrived, its `data` not yet validated. */
export interface Envelope {
  readonly id: string;
  readonly source: string;
  readonly type: string;
  readonly time?: string;
  readonly dueTime?: string;
  readonly orderingKey?: string;
  readonly traceParent?: string;
  readonly data: unknown;
}

/**
 * Reads a message body: an envelope, or an EventBridge event with an envelope as its detail.
 * Whatever is wrong with it comes back as a `problem`; nothing is thrown.
 */
export function readEnvelope(body: unknown): { envelope: Envelope } | { problem: string } {
  let value: unknown;
  try {
    value = JSON.parse(String(body));
  } catch {
    return { problem: 'body is not JSON' };
  }
  if (!isObject(value)) return { problem: 'body is not a JSON object' };
  const attributes = 'detail-type' in value && isObject(value['detail']) ? value['detail'] : value;
  const { specversion, id, source, type, time, duetime, partitionkey, traceparent, data } = attributes;
  if (specversion !== '1.0') return { problem: 'specversion: expected "1.0" (a CloudEvents envelope)' };
  if (typeof id !== 'string' || !isUuid(id)) return { problem: 'id: expected a UUID' };
  if (!isName(source)) return { problem: `source: expected ${NAME}` };
  if (!isName(type)) return { problem: `type: expected ${NAME}` };
  const envelope = {
    // PostgreSQL writes a uuid in lower case; the ledger's key must compare equal to it.
    id: id.toLowerCase(),
    source,
    type,
    data,
    ...(typeof time === 'string' ? { time } : {}),
    ...(typeof duetime === 'string' ? { dueTime: duetime } : {}),
    ...(typeof partitionkey === 'string' ? { orderingKey: partitionkey } : {}),
    // No reason to refuse an event: a trace that cannot be read is no trace.
    ...(isTraceParent(traceparent) ? { traceParent: traceparent } : {}),
  };
  return { envelope };
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** What `isName` accepts, for messages. */
export const NAME = 'text of 1 to 256 characters without control characters or lone surrogates';

/** Whether a CloudEvents source or type can be stored by PostgreSQL and carried by SQS as it is. */
export function isName(value: unknown): value is string {
  return (
    typeof value === 'string' &&
    value.length > 0 &&
    value.length <= 256 &&
    value.isWellFormed() &&
    // oxlint-disable-next-line no-control-regex -- control characters are what it looks for
    !/[\u0000-\u001F\u007F-\u009F\uFFFE\uFFFF]/.test(value)
  );
}
