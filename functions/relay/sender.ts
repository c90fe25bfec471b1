import { describeError, oneLine } from '../shared/errors.ts';
import type { ClaimedEvent } from './claim.ts';
import type { Outcome } from './outcome.ts';

/** An event in the form that a kind of destination takes, and what it weighs by that kind's own rule. */
export interface Message<M> {
  readonly message: M;
  readonly bytes: number;
}

/** One destination, whatever its kind. */
export interface Sender<M = unknown> {
  /** Messages in a call, at most. */
  readonly maxEntries: number;
  /** Bytes of a message and of a call, at most. */
  readonly maxBytes: number;
  /** Puts an event into the destination's form. */
  write(event: ClaimedEvent): Message<M>;
  /** One call; one outcome for each message, by position. Throws when the call as a whole failed. */
  call(messages: readonly M[], signal: AbortSignal): Promise<Outcome[]>;
  /** Error names that blame what is in the call; every other error blames the destination or the way there. */
  readonly contentErrors: ReadonlySet<string>;
}

/** Statuses of a request refused for what is in it: bad, too large, not to be processed. */
const CONTENT_STATUSES = new Set([400, 413, 422]);
/** Codes that come with such a status and yet blame the way to the destination: pace, access, keys, a missing queue. */
const WAY_CODES =
  /Throttl|TooMany|Limit|Denied|Authoriz|Token|Client|Signature|Expired|Exist|NotFound|Kms|Unsupported/i;

/**
 * Sends messages in one call and says of each what became of it; never throws. A call that was refused for its
 * content is cut in two and tried again, down to single messages, so that one bad message costs its neighbours nothing
 * and the same call is never made twice. Where the refusal only may be about the content (a code that nobody has heard
 * of), the single message is not given up but counts as failed by itself.
 *
 * @param signal ends the call; its messages are then `unanswered`
 */
export async function send<M>(
  sender: Sender<M>,
  messages: readonly M[],
  signal: AbortSignal,
): Promise<Outcome[]> {
  // The second half of a call that was cut in two may come too late to be tried.
  if (signal.aborted) return messages.map(() => ({ kind: 'unsent' }));
  try {
    return await sender.call(messages, signal);
  } catch (error) {
    if (signal.aborted) return messages.map(() => ({ kind: 'unanswered', reason: 'no answer in time' }));
    const reason = describeError(error);
    const isContent = sender.contentErrors.has(nameOf(error));
    if (!isContent && !mayBeContent(error)) {
      return messages.map(() => ({ kind: 'unavailable', reason, whole: true }));
    }
    if (messages.length === 1) {
      return [isContent ? { kind: 'refused', reason } : { kind: 'unavailable', reason, whole: false }];
    }
    const half = Math.ceil(messages.length / 2);
    const first = await send(sender, messages.slice(0, half), signal);
    const second = await send(sender, messages.slice(half), signal);
    return [...first, ...second];
  }
}

/** Whether an entry failed for the queue's pace alone: that says nothing of the event. */
export const isThrottling = (reason: string) => /^[\w.]*(Throttl|TooManyRequests)/i.test(reason);

/** Whether a code blames the way to the destination (pace, access, keys, a missing queue), never what was sent. */
export const blamesTheWay = (code: string) => WAY_CODES.test(code);

/** What an answer said of an entry, as it is kept and shown. */
export const reasonOf = (code: string | undefined, message: string | undefined) =>
  oneLine([code, message].filter(Boolean).join(': '));

function mayBeContent(error: unknown): boolean {
  const status = (error as { $metadata?: { httpStatusCode?: number } } | undefined)?.$metadata
    ?.httpStatusCode;
  return status !== undefined && CONTENT_STATUSES.has(status) && !blamesTheWay(nameOf(error));
}

// Some SDK versions put the query protocol's name before SQS's codes.
const nameOf = (error: unknown) =>
  String((error as Error | undefined)?.name).replace(/^AWS\.SimpleQueueService\./, '');
