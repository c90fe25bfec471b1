// How the peers publish: with the same SDK, the same calls of ten and as many of them in flight as our relay.

import { SendMessageBatchCommand } from '@aws-sdk/client-sqs';
import pLimit from 'p-limit';
import { sqsClient } from '../../../functions/relay/relay.ts';

const CALLS_IN_FLIGHT = 16;
const ENTRIES = 10;
/** How long a single message waits for nine others. */
const COLLECT_MS = 2;

/** Sends bodies; resolves when the queue has all of them, and throws when it refused one. */
export interface Publisher {
  all(bodies: readonly string[]): Promise<void>;
  /** For handlers of single messages: collects ten of them, or what came within 2 ms, into one call. */
  one(body: string): Promise<void>;
}

/** A publisher to one queue. */
export function publisherTo(queueUrl: string): Publisher {
  const sqs = sqsClient(CALLS_IN_FLIGHT);
  const limit = pLimit(CALLS_IN_FLIGHT);
  const call = (bodies: readonly string[]) =>
    limit(async () => {
      const Entries = bodies.map((MessageBody, index) => ({ Id: String(index), MessageBody }));
      const { Failed } = await sqs.send(new SendMessageBatchCommand({ QueueUrl: queueUrl, Entries }));
      if (Failed?.length) throw new Error(`refused: ${Failed[0]?.Code}`);
    });
  let waiting: { body: string; done: PromiseWithResolvers<void> }[] = [];
  let timer: NodeJS.Timeout | undefined;
  const flush = (): void => {
    clearTimeout(timer);
    timer = undefined;
    const group = waiting;
    waiting = [];
    call(group.map(({ body }) => body)).then(
      () => group.forEach(({ done }) => done.resolve()),
      (error: unknown) => group.forEach(({ done }) => done.reject(error)),
    );
  };
  return {
    all: async (bodies) => {
      const calls = Array.from({ length: Math.ceil(bodies.length / ENTRIES) }, (_, index) =>
        call(bodies.slice(index * ENTRIES, (index + 1) * ENTRIES)),
      );
      await Promise.all(calls);
    },
    one: (body) => {
      const done = Promise.withResolvers<void>();
      waiting.push({ body, done });
      if (waiting.length === ENTRIES) flush();
      else timer ??= setTimeout(flush, COLLECT_MS);
      return done.promise;
    },
  };
}
