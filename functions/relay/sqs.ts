import { SendMessageBatchCommand, type SendMessageBatchResult, type SQSClient } from '@aws-sdk/client-sqs';
import { describeError } from '../shared/errors.ts';
import type { Outcome } from './outcome.ts';

/** SQS takes at most this many messages in a call. */
export const SQS_MAX_ENTRIES = 10;

// The whole call was refused because of what is in it. Every other error says something about the queue or the way there.
const CONTENT_CODES = new Set(['BatchRequestTooLong', 'InvalidMessageContents', 'InvalidParameterValue']);

/**
 * Sends message bodies to a standard queue in one call and says of each, by position, what became of it.
 * A call that SQS refuses for its content is cut in two and tried again, down to single messages, so that one bad
 * message costs its neighbours nothing and the same call is never made twice.
 *
 * @param signal ends the call; its messages are then `unanswered`
 */
export async function sendToSqs(
  sqs: SQSClient,
  queueUrl: string,
  bodies: readonly string[],
  signal: AbortSignal,
): Promise<Outcome[]> {
  try {
    const answer = await sqs.send(
      new SendMessageBatchCommand({
        QueueUrl: queueUrl,
        Entries: bodies.map((body, index) => ({ Id: String(index), MessageBody: body })),
      }),
      { abortSignal: signal },
    );
    return bodies.map((_, index) => outcomeOfEntry(answer, String(index)));
  } catch (error) {
    if (signal.aborted) return bodies.map(() => ({ kind: 'unanswered', reason: 'no answer in time' }));
    const code = codeOf(error);
    if (!CONTENT_CODES.has(code)) {
      return bodies.map(() => ({ kind: 'unavailable', reason: describeError(error), whole: true }));
    }
    if (bodies.length === 1) return [{ kind: 'refused', reason: describeError(error) }];
    const half = Math.ceil(bodies.length / 2);
    const first = await sendToSqs(sqs, queueUrl, bodies.slice(0, half), signal);
    const second = await sendToSqs(sqs, queueUrl, bodies.slice(half), signal);
    return [...first, ...second];
  }
}

function outcomeOfEntry({ Successful, Failed }: SendMessageBatchResult, id: string): Outcome {
  const success = Successful?.find((entry) => entry.Id === id);
  if (success) return { kind: 'published', messageId: success.MessageId ?? '' };
  const failure = Failed?.find((entry) => entry.Id === id);
  if (!failure)
    return { kind: 'unavailable', reason: 'Unaccounted: in neither list of the answer', whole: false };
  const reason = [failure.Code, failure.Message].filter(Boolean).join(': ');
  return failure.SenderFault ? { kind: 'refused', reason } : { kind: 'unavailable', reason, whole: false };
}

// Some SDK versions prefix SQS's codes with the query protocol's name.
const codeOf = (error: unknown) =>
  String((error as Error | undefined)?.name).replace(/^AWS\.SimpleQueueService\./, '');
