// Our relay as it is deployed, and its parts alone.

import { SendMessageBatchCommand, SQSClient } from '@aws-sdk/client-sqs';
import pLimit from 'p-limit';
import { Client } from 'pg';
import { randomUUID } from 'node:crypto';
import { acknowledge } from '../../../functions/relay/acknowledge.ts';
import { claimDue } from '../../../functions/relay/claim.ts';
import { relayConfig } from '../../../functions/relay/config.ts';
import { partsOf, sqsClient } from '../../../functions/relay/relay.ts';
import { tick } from '../../../functions/relay/tick.ts';
import { connect } from '../../../functions/shared/database.ts';
import { countdown } from '../../../functions/shared/deadline.ts';
import { storeOf } from '../../../functions/shared/store.ts';
import { pgClient } from '../harness/pg-client.ts';
import { bodyOf, INSERT_OUTBOX, payloadText, type MakeContender } from './contender.ts';

/** Inserts events past every slow network. */
export const insertInto = (url: string) => async (count: number) => {
  const client = new Client(url);
  await client.connect();
  await client.query(INSERT_OUTBOX, [count]);
  await client.query('VACUUM ANALYZE outbox_event');
  await client.query('CHECKPOINT');
  await client.end();
};

/** The relay's settings as the environment of the template gives them, and what the options override. */
const configOf = (databaseUrl: string, queueUrl: string, options: Readonly<Record<string, unknown>>) =>
  relayConfig({
    DATABASE_URL: databaseUrl,
    OUTBOX_DESTINATIONS: JSON.stringify({ stock: { kind: 'sqs', queueUrl } }),
    ...(options['environment'] as Record<string, string> | undefined),
  });

/** The whole relay: ticks until nothing is left. */
export const relayContender: MakeContender = async ({ databaseUrl, nearDatabaseUrl, queueUrl, options }) => {
  const config = configOf(databaseUrl, queueUrl, options);
  const parts = { ...partsOf(connect(config), config), report: () => undefined };
  return {
    prepare: insertInto(nearDatabaseUrl),
    drain: async (count, capMs) => {
      const began = performance.now();
      const timeLeft = countdown(capMs);
      let events = 0;
      while (events < count && timeLeft() > 0) events += (await tick(parts, timeLeft)).acknowledged;
      return { events, milliseconds: performance.now() - began };
    },
  };
};

/** Claim and acknowledge without anything between: through `pg`, or through Prisma. */
export const storeContender: MakeContender = async ({ databaseUrl, nearDatabaseUrl, queueUrl, options }) => {
  const config = configOf(databaseUrl, queueUrl, options);
  const store =
    options['through'] === 'prisma' ? storeOf(connect(config)) : storeOf(pgClient(databaseUrl).client);
  const loop = async (): Promise<number> => {
    let events = 0;
    for (let dueFrom: number | null = null; ;) {
      const lease = { token: randomUUID(), leaseSeconds: config.leaseSeconds };
      const claim = await claimDue(store, lease, {
        limit: config.claimLimit,
        bytes: config.claimBytes,
        dueFrom,
      });
      if (claim.events.length === 0) return events;
      dueFrom = Math.max(...claim.events.map(({ dueAt }) => dueAt)) - 2;
      const done = claim.events.map(({ sequence }) => ({ sequence, messageId: randomUUID() }));
      events += await acknowledge(store, lease.token, done, config);
    }
  };
  return {
    prepare: insertInto(nearDatabaseUrl),
    drain: async () => {
      const began = performance.now();
      const counts = await Promise.all(Array.from({ length: config.claimsUnderway }, loop));
      return { events: counts.reduce((a, b) => a + b, 0), milliseconds: performance.now() - began };
    },
  };
};

/** The AWS SDK alone: the same messages in the same calls, of ten or of `entries`, with the relay's own client or with one on defaults. */
export const sdkContender: MakeContender = async ({ queueUrl, options }) => {
  const config = configOf('postgresql://unused', queueUrl, options);
  const sqs = options['client'] === 'defaults' ? new SQSClient({}) : sqsClient(config.callsInFlight);
  const entries = Number(options['entries'] ?? 10);
  let calls: { Id: string; MessageBody: string }[][] = [];
  return {
    prepare: async (count) => {
      calls = Array.from({ length: Math.ceil(count / entries) }, (_, call) =>
        Array.from({ length: entries }, (_, n) => ({
          Id: String(n),
          MessageBody: bodyOf(payloadText(call * entries + n)),
        })),
      );
    },
    drain: async () => {
      const limit = pLimit(config.callsInFlight);
      const began = performance.now();
      const sent = await Promise.all(
        calls.map((Entries) =>
          limit(async () => {
            const answer = await sqs.send(new SendMessageBatchCommand({ QueueUrl: queueUrl, Entries }), {
              abortSignal: AbortSignal.timeout(5_000),
            });
            return answer.Successful?.length ?? 0;
          }),
        ),
      );
      return { events: sent.reduce((a, b) => a + b, 0), milliseconds: performance.now() - began };
    },
  };
};
