// The message groups of a FIFO queue that its event source mapping is delivering.

import type { Message } from '@aws-sdk/client-sqs';
import { isFifo, type LocalQueue } from './queue.ts';

/** Which groups are in an invocation. */
export interface MessageGroups {
  /** Runs `deliver` once none of the batch's groups is in an invocation any more, and holds them until it is over. */
  inTurn(batch: Message[], deliver: () => Promise<void>): Promise<void>;
}

/**
 * Keeps each group of a FIFO queue in one invocation at a time; a standard queue has none. The queue alone does not:
 * a message that its consumer has sent back can be received again while that invocation is still ending.
 */
export function messageGroups(queue: LocalQueue): MessageGroups {
  const held = new Map<string, Promise<void>>();
  return {
    inTurn: (batch, deliver) => {
      const groups = isFifo(queue) ? batch.map(({ Attributes }) => Attributes?.MessageGroupId ?? '') : [];
      const before = groups.flatMap((group) => held.get(group) ?? []);
      const delivered = Promise.all(before).then(deliver);
      const over = delivered.finally(() => {
        for (const group of groups) if (held.get(group) === over) held.delete(group);
      });
      for (const group of groups) held.set(group, over);
      return over;
    },
  };
}
