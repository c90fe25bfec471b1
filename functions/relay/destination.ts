import * as z from 'zod';
import { DESTINATION } from '../outbox/check.ts';
import { address } from '../shared/config.ts';

/** SQS's limit for a message and for a call, in bytes. */
const SQS_MAX_BYTES = 1_048_576;
/** EventBridge's documented limit for a call, in bytes by its own size rule. */
const EVENTBRIDGE_MAX_BYTES = 262_144;

/** What becomes of a key whose first event is parked: its later events wait for a person, or go on without it. */
const parkedHead = z.enum(['hold', 'skip']).default('hold');

/** An object without other keys; one that is not expected is named, and those that are. */
const closed = <S extends z.ZodRawShape>(shape: S) =>
  z.strictObject(shape, {
    error: (issue) =>
      issue.code === 'unrecognized_keys'
        ? `no such key ${issue.keys.map((key) => JSON.stringify(key)).join(', ')}; expected some of ${Object.keys(shape).join(', ')}`
        : undefined,
  });

const sqs = closed({
  kind: z.literal('sqs'),
  /** A FIFO queue's URL ends in `.fifo`. */
  queueUrl: address,
  /** Bytes per message and per call; lower it where a queue or a consumer takes less. */
  maxBytes: z.int().min(1_024).max(SQS_MAX_BYTES).default(SQS_MAX_BYTES),
  parkedHead,
  /** Fair queues: the envelope attribute that becomes the message group of a standard queue. */
  fairBy: z.enum(['source', 'type', 'partitionkey']).optional(),
});

const eventbridge = closed({
  kind: z.literal('eventbridge'),
  /** Name or ARN. EventBridge accepts and drops events for a bus that does not exist. */
  busName: z.string().min(1),
  maxBytes: z.int().min(1_024).max(SQS_MAX_BYTES).default(EVENTBRIDGE_MAX_BYTES),
  parkedHead,
});

/** Destinations by name. */
export const destinationsShape = z
  .record(
    z.string().regex(DESTINATION, 'expected a name of 1 to 64 letters, digits, hyphens or underscores'),
    z.discriminatedUnion('kind', [sqs, eventbridge]),
  )
  .refine((destinations) => Object.keys(destinations).length > 0, 'expected at least one destination')
  .superRefine((destinations, context) => {
    for (const [name, destination] of Object.entries(destinations)) {
      if (destination.kind === 'sqs' && destination.fairBy && isFifo(destination)) {
        const message = 'fairBy is for standard queues; a FIFO queue is grouped by ordering key';
        context.addIssue({ code: 'custom', path: [name, 'fairBy'], message });
      }
    }
  });

/** Where events of one destination go. */
export type Destination = z.output<typeof destinationsShape>[string];
/** A standard or FIFO queue. */
export type SqsDestination = z.output<typeof sqs>;
/** An event bus. */
export type EventBridgeDestination = z.output<typeof eventbridge>;

/** Whether the queue keeps order within a message group. */
export const isFifo = ({ queueUrl }: { readonly queueUrl: string }) => queueUrl.endsWith('.fifo');
