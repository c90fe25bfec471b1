// The producers: business rows and events in one transaction, committed or rolled back.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Prisma, PrismaClient } from '../../prisma/client/client.ts';
import { recordEvents } from '../../functions/outbox/record.ts';
import { connect } from '../../functions/shared/database.ts';
import { describeError } from '../../functions/shared/errors.ts';
import { afterwards } from '../support/cleanup.ts';
import { SOURCE, STEP, type Step } from './effects.ts';
import type { PlannedTransaction } from './program.ts';
import type { World } from './world.ts';

/** The producers' client, on their way to the database. */
export function producerOf({ ways }: World): PrismaClient {
  const prisma = connect({ databaseUrl: ways.get('producer')?.url ?? '', poolSize: 3 });
  afterwards(() => prisma.$disconnect());
  return prisma;
}

class RollBack extends Error {}

/** Records what the program has for the producers, each one's transactions one after another. */
export async function produce(world: World): Promise<void> {
  const prisma = producerOf(world);
  const producers = world.program.producers.map(async (transactions) => {
    for (const transaction of transactions) {
      await sleep(transaction.pauseMs);
      const ids = transaction.events.map(({ id }) => id);
      const end = await doTransaction(prisma, transaction);
      world.timeline.add('producer', `transaction ${transaction.number} ${end}, recording`, ids);
    }
  });
  await Promise.all(producers);
}

/** @returns how it ended, as far as the producer knows. It does not try again what failed. */
export async function doTransaction(prisma: PrismaClient, transaction: PlannedTransaction): Promise<string> {
  try {
    await prisma.$transaction((tx) => doBusiness(tx, transaction), { timeout: 15_000, maxWait: 15_000 });
    return 'is committed';
  } catch (error) {
    return error instanceof RollBack ? 'is rolled back' : `fails (${describeError(error, 60)})`;
  }
}

async function doBusiness(tx: Prisma.TransactionClient, transaction: PlannedTransaction): Promise<void> {
  const { number, events, openMs, rollsBack } = transaction;
  const stepOf = (position: number): Step => {
    const trait = events[position]?.trait ?? 'plain';
    return { transaction: number, position, trait };
  };
  await tx.$executeRawUnsafe(
    'INSERT INTO business VALUES ($1::int, $2::json)',
    number,
    JSON.stringify(events.map((event, position) => ({ ...event, step: stepOf(position) }))),
  );
  await recordEvents(
    tx,
    events.map(({ id, orderingKey, destinations, delaySeconds }, position) => ({
      id,
      type: STEP,
      source: SOURCE,
      destinations,
      delaySeconds,
      payload: stepOf(position),
      ...(orderingKey !== null && { orderingKey }),
    })),
  );
  // Keys in one order for everybody, so that producers cannot deadlock.
  const keyed = events.toSorted((a, b) => ((a.orderingKey ?? '') < (b.orderingKey ?? '') ? -1 : 1));
  for (const { id, orderingKey } of keyed) if (orderingKey !== null) await drawPosition(tx, orderingKey, id);
  await sleep(openMs);
  if (rollsBack) throw new RollBack();
}

const drawPosition = (tx: Prisma.TransactionClient, orderingKey: string, id: string) =>
  tx.$executeRawUnsafe(
    `WITH drawn AS (
       INSERT INTO key_position VALUES ($1, 1)
       ON CONFLICT (ordering_key) DO UPDATE SET last = key_position.last + 1 RETURNING last)
     INSERT INTO key_order SELECT $1, last, $2::uuid FROM drawn`,
    orderingKey,
    id,
  );
