// What relays and consumers are configured to.

import type { ConsumerConfig } from '../../functions/consumer/config.ts';
import type { Destination } from '../../functions/relay/destination.ts';
import { relaySettings } from '../support/relay.ts';
import type { ScriptedSqs } from '../support/scripted-sqs.ts';
import { DEAD_LETTERS, FIFO, QUEUES, STANDARD, type DestinationName, type Program } from './program.ts';
import type { Role } from './worker.ts';

export const VISIBILITY_SECONDS = 1.2;
/** On a busy machine short leases run out by themselves; what is left when faults have stopped must get done. */
const AMPLE_TIME = { leaseSeconds: 20, callTimeoutSeconds: 10 };

/** The queue as `actor` calls it: the endpoint reads in the URL who is calling. */
const queueUrl = (sqs: ScriptedSqs, actor: string, queue: string) => `${sqs.endpoint}/${actor}/${queue}`;

/** A relay's settings in this history, with its own ways to the database and the queues. */
export function relayRole(
  { settings, calm }: Program,
  sqs: ScriptedSqs,
  actor: string,
  databaseUrl: string,
  faulty: boolean,
): Role {
  const { relays: _, consumers: __, transactionPer: ___, tickPauseMs: ____, parkedHead, ...own } = settings;
  const destination = (name: DestinationName): Destination => ({
    kind: 'sqs',
    queueUrl: queueUrl(sqs, actor, QUEUES[name]),
    maxBytes: 1_048_576,
    parkedHead,
  });
  const destinations = { [STANDARD]: destination(STANDARD), [FIFO]: destination(FIFO) };
  const backoff = { backoffBaseSeconds: 0.03, backoffMaxSeconds: 0.2 };
  const time = faulty || calm ? {} : AMPLE_TIME;
  const config = relaySettings(destinations, { ...own, ...backoff, ...time, databaseUrl });
  return { endpoint: sqs.endpoint, kind: 'relay', config };
}

/** A consumer's. */
export function consumerRole(
  { settings: { transactionPer } }: Program,
  sqs: ScriptedSqs,
  actor: string,
  name: DestinationName,
  databaseUrl: string,
): Role {
  const config: ConsumerConfig = {
    databaseUrl,
    poolSize: 4,
    queueUrl: queueUrl(sqs, actor, QUEUES[name]),
    // Of the FIFO queue nothing is put aside: what comes later must not pass it.
    deadLetterQueueUrl: name === FIFO ? undefined : queueUrl(sqs, actor, DEAD_LETTERS),
    functionTimeoutSeconds: 4,
    queueVisibilitySeconds: VISIBILITY_SECONDS,
    concurrency: 4,
    retryBaseSeconds: 0.1,
    retryMaxSeconds: 0.4,
  };
  return { endpoint: sqs.endpoint, kind: 'consumer', config, name, transactionPer };
}
