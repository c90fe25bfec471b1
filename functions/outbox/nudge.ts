import { setTimeout as sleep } from 'node:timers/promises';
import { SendMessageCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { address } from '../shared/config.ts';
import { countdown, inTime } from '../shared/deadline.ts';
import { describeError } from '../shared/errors.ts';
import { report as writeReport, type Report } from '../shared/report.ts';

/** What a tick says, wherever it comes from; the relay reads nothing in it. */
const TICK = JSON.stringify({ tick: 'nudge' });
/** A nudge is a courtesy; the request that gives it must not wait long for it. */
const NUDGE_TIMEOUT_MS = 1_000;

/** Whom to nudge, and how often. */
export interface NudgerOptions {
  readonly sqs: SQSClient;
  readonly tickQueueUrl: string;
  /**
   * Milliseconds between the answer to one nudge and the next. 0 where a sandbox handles one request at a time, as in
   * Lambda; about 15 in a server with many, whose commits then wake the relay together.
   */
  readonly pauseMs?: number;
  readonly report?: Report;
}

/**
 * Makes a `nudge()` to call after a commit: it puts a tick on the tick queue, so that the relay starts within
 * milliseconds. One is sent at a time; all calls that come meanwhile become the next one, together.
 * It never throws: a lost nudge costs one tick interval, since the schedule is the safety net.
 * Do not call it from inside a chain of Lambda → SQS → Lambda: Lambda stops such loops after 16 hops.
 *
 * @throws TypeError at once when the tick queue has no URL
 * @returns a function whose promise resolves once a nudge that was sent after the call is answered, or given up
 */
export function nudger(options: NudgerOptions): () => Promise<void> {
  const { tickQueueUrl, pauseMs = 0 } = options;
  if (!address.safeParse(tickQueueUrl).success) {
    throw new TypeError(`nudger: tickQueueUrl: expected a queue's URL, got ${JSON.stringify(tickQueueUrl)}`);
  }
  const pause = pauseMs > 0 ? () => sleep(pauseMs) : () => undefined;
  let ready: Promise<unknown> = Promise.resolve();
  let next: Promise<void> | undefined;
  return () =>
    (next ??= ready.then(() => {
      next = undefined;
      const sent = send(options);
      // Whatever became of it: a nudge that failed holds up no later one.
      ready = sent.then(pause, pause);
      return sent;
    }));
}

async function send({ sqs, tickQueueUrl, report = writeReport }: NudgerOptions): Promise<void> {
  try {
    const command = new SendMessageCommand({ QueueUrl: tickQueueUrl, MessageBody: TICK });
    const abortSignal = AbortSignal.timeout(NUDGE_TIMEOUT_MS);
    // Credentials that never come are not ended by the signal.
    await inTime(sqs.send(command, { abortSignal }), countdown(NUDGE_TIMEOUT_MS + 100));
  } catch (error) {
    report('nudge.lost', { error: describeError(error) });
  }
}
