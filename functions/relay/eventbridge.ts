import type {
  EventBridgeClient,
  PutEventsRequestEntry,
  PutEventsResultEntry,
} from '@aws-sdk/client-eventbridge';
import { writeEnvelope } from '../outbox/envelope.ts';
import { xRayHeader } from '../shared/trace.ts';
import type { EventBridgeDestination } from './destination.ts';
import type { Outcome } from './outcome.ts';
import { isThrottling, reasonOf, type Sender } from './sender.ts';

/** Codes of single entries that blame the entry. */
const ENTRY_CODES = new Set(['MalformedDetail', 'InvalidArgument', 'ValidationException', 'ValidationError']);
/** EventBridge counts a `Time` as 14 bytes, whatever its text. */
const TIME_BYTES = 14;

/**
 * An event bus, through `PutEvents`: source and type become EventBridge's own, the whole envelope is the detail.
 * The SDK's client is loaded with the first event, so a relay without buses does not pay for it.
 */
export function eventBridgeSender({
  busName,
  maxBytes,
}: EventBridgeDestination): Sender<PutEventsRequestEntry> {
  let client: EventBridgeClient | undefined;
  return {
    maxEntries: 10,
    maxBytes,
    contentErrors: new Set(['ValidationException', 'RequestEntityTooLargeException', 'InvalidArgument']),
    write(event) {
      const Detail = writeEnvelope(event);
      const bytes =
        TIME_BYTES +
        [event.source, event.type, Detail].map((text) => Buffer.byteLength(text)).reduce((a, b) => a + b);
      const Time = new Date(event.recordedAt);
      // EventBridge does not count it as size.
      const TraceHeader = xRayHeader(event.traceParent);
      const message = { EventBusName: busName, Source: event.source, DetailType: event.type, Time, Detail };
      return { message: TraceHeader === undefined ? message : { ...message, TraceHeader }, bytes };
    },
    async call(entries, abortSignal) {
      const { EventBridgeClient, PutEventsCommand } = await import('@aws-sdk/client-eventbridge');
      client ??= new EventBridgeClient({ maxAttempts: 2 });
      const command = new PutEventsCommand({ Entries: [...entries] });
      const { Entries = [] } = await client.send(command, { abortSignal });
      return entries.map((_, index) => outcomeOf(Entries[index]));
    },
  };
}

/** EventBridge answers by position. */
function outcomeOf(result: PutEventsResultEntry | undefined): Outcome {
  if (result?.EventId && !result.ErrorCode) return { kind: 'published', messageId: result.EventId };
  if (!result?.ErrorCode) {
    return { kind: 'unavailable', reason: 'Unaccounted: no entry in the answer', whole: false };
  }
  const reason = reasonOf(result.ErrorCode, result.ErrorMessage);
  return ENTRY_CODES.has(result.ErrorCode)
    ? { kind: 'refused', reason }
    : { kind: 'unavailable', reason, whole: isThrottling(reason) };
}
