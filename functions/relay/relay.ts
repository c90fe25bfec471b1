import { randomUUID } from 'node:crypto';
import { SQSClient } from '@aws-sdk/client-sqs';
import type { Context } from 'aws-lambda';
import pLimit from 'p-limit';
import { invocationTimeLeft } from '../shared/deadline.ts';
import { nameInvocation, report } from '../shared/report.ts';
import { storeOf, type RawClient } from '../shared/store.ts';
import type { RelayConfig } from './config.ts';
import type { TickCounts } from './counts.ts';
import type { RelayParts } from './parts.ts';
import { eventBridgeSender } from './eventbridge.ts';
import type { Sender } from './sender.ts';
import { sqsSender } from './sqs.ts';
import { tick } from './tick.ts';

/** Of the invocation, kept for the last settle and the answer. */
const SETTLE_MARGIN_MS = 1_500;

/**
 * Makes the relay's Lambda handler over a Prisma client. The event is any tick; nothing in it is read.
 * It returns what it did, and throws only when it could do nothing at all.
 */
export function relay({ prisma, config }: { readonly prisma: RawClient; readonly config: RelayConfig }) {
  const parts = partsOf(prisma, config);
  return async (_event: unknown, context: Context): Promise<TickCounts> => {
    nameInvocation(context);
    const began = performance.now();
    const counts = await tick(parts, invocationTimeLeft(context, SETTLE_MARGIN_MS));
    parts.report('relay.tick', { ...counts, milliseconds: Math.round(performance.now() - began) });
    return counts;
  };
}

/** The parts of a relay that runs for real. */
export function partsOf(prisma: RawClient, config: RelayConfig): RelayParts {
  const limit = pLimit(config.callsInFlight);
  return {
    store: storeOf(prisma),
    senders: sendersOf(config),
    config,
    report,
    calls: (call) => limit(call),
    keyCursors: new Map(),
    random: Math.random,
    newToken: randomUUID,
  };
}

/**
 * The client that all SQS destinations share.
 * One retry of the SDK's own covers a socket that died while the sandbox was frozen; further tries are the relay's.
 */
export const sqsClient = (callsInFlight: number): SQSClient =>
  new SQSClient({
    maxAttempts: 2,
    requestHandler: { connectionTimeout: 2_000, httpsAgent: { maxSockets: callsInFlight } },
  });

function sendersOf({ destinations, callsInFlight }: RelayConfig): ReadonlyMap<string, Sender> {
  const sqs = sqsClient(callsInFlight);
  return new Map(
    Object.entries(destinations).map(([name, destination]): [string, Sender] => [
      name,
      destination.kind === 'sqs' ? sqsSender(sqs, destination) : eventBridgeSender(destination),
    ]),
  );
}
