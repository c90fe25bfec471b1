// The example's destinations. Each has a consumer of its own name behind its queue.

import type { Message } from '@aws-sdk/client-sqs';
import { queueOf, type Stack } from '../stack.ts';

/** Destination → the template's queues for it. */
const QUEUES = {
  stock: { events: 'StockQueue', deadLetters: 'StockDeadLetterQueue' },
  history: { events: 'HistoryQueue', deadLetters: 'HistoryDeadLetterQueue' },
} as const;

/** Name of a destination, and of its consumer. */
export type DestinationName = keyof typeof QUEUES;

/** The names, in the order in which they are reported. */
export const DESTINATIONS = Object.keys(QUEUES) as DestinationName[];

/** A message in a dead-letter queue, and which destination's. */
export interface DeadLetter {
  destination: DestinationName;
  message: Message;
}

/** The queues through which events reach their consumers. */
export const eventQueues = (stack: Stack) => DESTINATIONS.map((name) => queueOf(stack, QUEUES[name].events));

/** How many messages are on their way to a consumer. */
export async function messagesUnderway(stack: Stack): Promise<number> {
  const depths = await Promise.all(eventQueues(stack).map((queue) => queue.depth()));
  return depths.reduce((sum, { visible, inFlight, delayed }) => sum + visible + inFlight + delayed, 0);
}

/** How many dead letters there are. */
export async function countDeadLetters(stack: Stack): Promise<number> {
  const depths = await Promise.all(
    DESTINATIONS.map((name) => queueOf(stack, QUEUES[name].deadLetters).depth()),
  );
  return depths.reduce((sum, { visible }) => sum + visible, 0);
}

/** Takes all dead letters out of their queues. */
export async function takeDeadLetters(stack: Stack): Promise<DeadLetter[]> {
  const taken = DESTINATIONS.map(async (destination) => {
    const messages = await queueOf(stack, QUEUES[destination].deadLetters).drain();
    return messages.map((message) => ({ destination, message }));
  });
  return (await Promise.all(taken)).flat();
}
