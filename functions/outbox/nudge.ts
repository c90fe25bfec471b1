import { SendMessageCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { describeError } from '../shared/errors.ts';
import { report as writeReport, type Report } from '../shared/report.ts';

/** What a tick says, wherever it comes from; the relay reads nothing in it. */
const TICK = JSON.stringify({ tick: 'nudge' });
/** A nudge is a courtesy; the request that gives it must not wait long for it. */
const NUDGE_TIMEOUT_MS = 1_000;

/**
 * Makes a `nudge()` to call after a commit: it puts a tick on the tick queue, so that the relay starts within
 * milliseconds. It never throws: a lost nudge costs one tick interval, since the schedule is the safety net.
 * Do not call it from inside a chain of Lambda → SQS → Lambda: Lambda stops such loops after 16 hops.
 */
export function nudger({
  sqs,
  tickQueueUrl,
  report = writeReport,
}: {
  readonly sqs: SQSClient;
  readonly tickQueueUrl: string;
  readonly report?: Report;
}): () => Promise<void> {
  return async () => {
    try {
      await sqs.send(new SendMessageCommand({ QueueUrl: tickQueueUrl, MessageBody: TICK }), {
        abortSignal: AbortSignal.timeout(NUDGE_TIMEOUT_MS),
      });
    } catch (error) {
      report('nudge.lost', { error: describeError(error) });
    }
  };
}
