// What invokes relays and consumers: ticks, and the queues' event source mappings.

import { DeleteMessageBatchCommand, ReceiveMessageCommand, type SQSClient } from '@aws-sdk/client-sqs';
import type { SQSBatchResponse, SQSRecord } from 'aws-lambda';
import { setTimeout as sleep } from 'node:timers/promises';
import { describeError } from '../../functions/shared/errors.ts';
import { move } from './errands.ts';
import { DEAD_LETTERS, FIFO, QUEUES, type Delivery, type DestinationName } from './program.ts';
import { hasVisible, invoke, type Slot, type World } from './world.ts';

const IDLE_MS = 15;
/** SQS's redrive policy: what is received more often goes to the dead-letter queue. */
const MAX_RECEIVES = 5;
/** Beyond an invocation, so that afterwards nothing comes twice only because the machine is busy. */
const AMPLE_VISIBILITY_SECONDS = 15;

/** Ticks one relay until the history is over. */
export async function tickOn(world: World, slot: Slot): Promise<void> {
  while (!world.over) {
    await invoke(world, slot, {}).catch((error: unknown) =>
      world.timeline.add(slot.name, `its tick fails: ${describeError(error, 80)}`),
    );
    await sleep(world.program.settings.tickPauseMs);
  }
}

/** A queue as its event source mapping sees it. */
export interface Mapping {
  readonly name: DestinationName;
  readonly client: SQSClient;
  /** How the next batches are handed out. */
  readonly deliveries: Delivery[];
  /** Batches that come once more. */
  readonly again: SQSRecord[][];
}

export const mappingOf = (world: World, name: DestinationName): Mapping => ({
  name,
  client: world.sqs.client(),
  deliveries: [...world.program.deliveries[name]],
  again: [],
});

/** Gives batches of the queue to one consumer until the history is over. */
export async function deliverOn(world: World, mapping: Mapping, slot: Slot): Promise<void> {
  while (!world.over) {
    const records = mapping.again.shift() ?? (await receive(world, mapping));
    if (records.length === 0) await sleep(IDLE_MS);
    else await deliver(world, mapping, slot, records);
  }
}

async function receive(world: World, { name, client }: Mapping): Promise<SQSRecord[]> {
  if (!hasVisible(world, QUEUES[name])) return [];
  const { Messages = [] } = await client.send(
    new ReceiveMessageCommand({
      QueueUrl: world.sqs.queueUrl(QUEUES[name]),
      MaxNumberOfMessages: 10,
      MessageSystemAttributeNames: ['All'],
      ...((!world.faulty || world.program.calm) && { VisibilityTimeout: AMPLE_VISIBILITY_SECONDS }),
    }),
  );
  const records = Messages.map(
    ({ Body = '', ReceiptHandle = '', MessageId = '', Attributes = {} }): SQSRecord => ({
      messageId: MessageId,
      receiptHandle: ReceiptHandle,
      body: Body,
      attributes: Attributes as unknown as SQSRecord['attributes'],
      messageAttributes: {},
      md5OfBody: '',
      eventSource: 'aws:sqs',
      eventSourceARN: `arn:aws:sqs:us-east-1:000000000000:${QUEUES[name]}`,
      awsRegion: 'us-east-1',
    }),
  );
  if (name === FIFO) return records;
  const worn = records.filter(({ attributes }) => Number(attributes.ApproximateReceiveCount) > MAX_RECEIVES);
  for (const record of worn) await move(world, client, record, QUEUES[name], DEAD_LETTERS);
  return records.filter((record) => !worn.includes(record));
}

async function deliver(world: World, mapping: Mapping, slot: Slot, records: SQSRecord[]): Promise<void> {
  const delivery = (world.faulty ? mapping.deliveries.shift() : undefined) ?? 'once';
  if (delivery !== 'once')
    world.timeline.strike(`delivery ${delivery}`, slot.name, `a batch is delivered ${delivery}`);
  if (delivery === 'again') mapping.again.push(records);
  const Records = delivery === 'doubled' ? [...records, ...records] : records;
  const ids = records.map(({ body }) => (JSON.parse(body) as { id: string }).id);
  try {
    const answer = (await invoke(world, slot, { Records })) as SQSBatchResponse;
    const failed = new Set(answer.batchItemFailures.map(({ itemIdentifier }) => itemIdentifier));
    world.timeline.add(slot.name, `applies ${records.length}, of which ${failed.size} fail`, ids);
    const done = records.filter(({ messageId }) => !failed.has(messageId));
    if (delivery !== 'undeleted' && done.length > 0) await remove(world, mapping, done);
  } catch (error) {
    world.timeline.add(slot.name, `its batch of ${records.length} fails: ${describeError(error, 80)}`, ids);
  }
}

const remove = (world: World, { name, client }: Mapping, records: readonly SQSRecord[]) =>
  client.send(
    new DeleteMessageBatchCommand({
      QueueUrl: world.sqs.queueUrl(QUEUES[name]),
      Entries: records.map(({ receiptHandle }, n) => ({ Id: String(n), ReceiptHandle: receiptHandle })),
    }),
  );
