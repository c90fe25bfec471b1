// What a person does (replays, redrives), and the schedule's prune.

import {
  DeleteMessageBatchCommand,
  ReceiveMessageCommand,
  SendMessageCommand,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import type { SQSRecord } from 'aws-lambda';
import { setTimeout as sleep } from 'node:timers/promises';
import { replayParked } from '../../functions/outbox/operate.ts';
import { pruneLedger, pruneOutbox } from '../../functions/prune/prune.ts';
import { countdown } from '../../functions/shared/deadline.ts';
import { storeOf } from '../../functions/shared/store.ts';
import { DEAD_LETTERS, FIFO, QUEUES, STANDARD, type Errand } from './program.ts';
import { hasVisible, throughDisasters, type World } from './world.ts';

const RETENTION_HOURS = 0.1 / 3_600;
const LEDGER_RETENTION_DAYS = 1;

/** What the relay has not sent itself says so, for the checker. */
export const MOVED = 'campaign-moved';

/** Moves a message as a redrive does. */
export async function move(
  { sqs }: World,
  client: SQSClient,
  { body, receiptHandle }: Pick<SQSRecord, 'body' | 'receiptHandle'>,
  from: string,
  to: string,
): Promise<void> {
  await client.send(
    new SendMessageCommand({
      QueueUrl: sqs.queueUrl(to),
      MessageBody: body,
      MessageAttributes: { [MOVED]: { DataType: 'String', StringValue: from } },
    }),
  );
  const Entries = [{ Id: '0', ReceiptHandle: receiptHandle }];
  await client.send(new DeleteMessageBatchCommand({ QueueUrl: sqs.queueUrl(from), Entries }));
}

/** Does the program's errands, each at its time. */
export async function runErrands(world: World): Promise<void> {
  await Promise.all(
    world.program.errands.map(async ({ afterMs, what }) => {
      await sleep(afterMs);
      if (!world.over) await doErrand(world, what);
    }),
  );
}

/** What a database that is away interrupts is begun again. */
export const doErrand = (world: World, what: Errand['what']): Promise<void> =>
  throughDisasters(world.program, () => ERRANDS[what](world));

const ERRANDS: Record<Errand['what'], (world: World) => Promise<void>> = {
  replay: async ({ prisma, timeline }) => {
    const store = storeOf(prisma);
    for (const destination of [STANDARD, FIFO]) {
      const replayed = await replayParked(store, { destination });
      if (replayed > 0)
        timeline.strike('replays', 'a person', `replays ${replayed} parked for ${destination}`);
    }
  },
  redrive: async (world) => {
    if (!hasVisible(world, DEAD_LETTERS)) return;
    const client = world.sqs.client();
    const QueueUrl = world.sqs.queueUrl(DEAD_LETTERS);
    const { Messages = [] } = await client.send(
      new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10 }),
    );
    for (const { Body = '', ReceiptHandle = '' } of Messages)
      await move(world, client, { body: Body, receiptHandle: ReceiptHandle }, DEAD_LETTERS, QUEUES[STANDARD]);
    if (Messages.length > 0)
      world.timeline.strike('redrives', 'a person', `redrives ${Messages.length} dead letters`);
  },
  prune: async ({ prisma, timeline }) => {
    const store = storeOf(prisma);
    const pruned = await pruneOutbox(store, RETENTION_HOURS, countdown(3_000));
    await pruneLedger(store, LEDGER_RETENTION_DAYS, countdown(3_000));
    if (pruned > 0) timeline.strike('prunes', 'prune', `deletes ${pruned} published rows`);
  },
};
