// A steady load, and faults that never stop.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Dice } from '../campaign/dice.ts';
import { answerOf, layTrap, strikeNow } from '../campaign/faults.ts';
import type { Mapping } from '../campaign/invocations.ts';
import { doTransaction, producerOf } from '../campaign/producers.ts';
import { FIFO, STANDARD, type PlannedEvent, type Statement } from '../campaign/program.ts';
import { slotsOf, type World } from '../campaign/world.ts';

const KEYS = 50;
const EVENTS_PER_TRANSACTION = 2;
const FAULT_EVERY_MS = 1_500;
/** Of the calls that send, so many go wrong. */
const WRONG_ANSWERS = 0.05;
const ANSWERS = {
  entries: 8,
  error503: 2,
  throttled: 2,
  stall: 1,
  storeThenStall: 1,
  reset: 2,
  storeThenReset: 3,
};
const ENTRIES = { ok: 60, failed: 20, omitted: 8, storedButOmitted: 8, wrongMd5: 4 };
const STATEMENTS = {
  relay: ['claim', 'claimHeads', 'acknowledge', 'release'],
  consumer: ['begin', 'ledger', 'effect', 'commit'],
} as const satisfies Record<string, readonly Statement[]>;

/** Records `rate` events a second until the history is over, whatever becomes of each transaction. */
export async function produceOn(world: World, end: AbortSignal, dice: Dice, rate: number): Promise<void> {
  const prisma = producerOf(world);
  const underway = new Set<Promise<unknown>>();
  const began = performance.now();
  for (let number = 0; !end.aborted; number += 1) {
    await sleep(Math.max(0, began + (number * EVENTS_PER_TRANSACTION * 1_000) / rate - performance.now()));
    const events = dice.times(EVENTS_PER_TRANSACTION, () => eventBy(dice));
    const rollsBack = dice.chance(0.1);
    const work = doTransaction(prisma, { number, pauseMs: 0, openMs: 0, rollsBack, events }).finally(() =>
      underway.delete(work),
    );
    underway.add(work);
    if (underway.size >= 10) await Promise.race(underway);
  }
  await Promise.all(underway);
}

const eventBy = (dice: Dice): PlannedEvent => ({
  id: dice.uuid(),
  orderingKey: dice.chance(0.5) ? `key-${dice.whole(1, KEYS)}` : null,
  destinations: dice.pick([[STANDARD], [FIFO]]),
  delaySeconds: 0,
  trait: dice.chance(0.05) ? 'clumsy' : 'plain',
});

/** A fault each second and a half until the history is over; `spared` processes are not killed. */
export async function strikeOn(
  world: World,
  end: AbortSignal,
  dice: Dice,
  spared: ReadonlySet<string>,
): Promise<void> {
  world.sqs.on(({ action, input, entries }) => {
    if (action !== 'SendMessageBatch' || end.aborted || !dice.chance(WRONG_ANSWERS)) return undefined;
    const kind = dice.weighed(ANSWERS);
    world.timeline.strike(`answer ${kind}`, 'queue', kind);
    const actor = input.QueueUrl?.split('/').at(-2) ?? '';
    return answerOf(world, actor, { kind, entries: entries.map(() => dice.weighed(ENTRIES)) });
  });
  const actors = slotsOf(world).map(({ name }) => name) as [string, ...string[]];
  while (!end.aborted) {
    await sleep(FAULT_EVERY_MS);
    const actor = dice.pick(actors);
    const kind = dice.weighed({ trap: 3, blow: 2, outage: 0.2 });
    if (kind === 'blow')
      await strikeNow(
        world,
        actor,
        dice.pick(spared.has(actor) ? ['freeze', 'cut'] : ['kill', 'freeze', 'cut']),
      );
    else {
      const statement = dice.pick(STATEMENTS[actor.startsWith('relay') ? 'relay' : 'consumer']);
      const side = dice.pick(['before', 'after'] as const);
      const struck = kind === 'outage' ? kind : dice.pick(['cut', 'terminate', 'slow'] as const);
      const way = world.ways.get(actor);
      if (way) layTrap(world, { actor, statement, side, nth: 1, strike: struck }, way);
    }
  }
}

/** Some of the batches come again, undeleted or doubled. */
export async function redeliverOn(end: AbortSignal, dice: Dice, mappings: readonly Mapping[]): Promise<void> {
  while (!end.aborted) {
    for (const { deliveries } of mappings)
      while (deliveries.length < 100)
        deliveries.push(dice.weighed({ once: 90, again: 5, undeleted: 3, doubled: 2 }));
    await sleep(200);
  }
}
