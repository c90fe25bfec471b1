// The events of a history and what its consumers make of them.

import * as z from 'zod';
import type { Prisma } from '../../prisma/client/client.ts';
import { defineEvents, type ReceivedEvent } from '../../functions/outbox/event.ts';
import { TerminalError } from '../../functions/shared/errors.ts';

export const STEP = 'campaign.step';
export const SOURCE = '/campaign';

export const events = defineEvents({
  [STEP]: z.object({
    transaction: z.int(),
    position: z.int(),
    trait: z.enum(['plain', 'poison', 'clumsy']),
  }),
});

/** What a producer records. */
export type Step = z.output<(typeof events.schemas)[typeof STEP]>;

/**
 * The tables that the checker reads beside the engine's own. None refuses a duplicate: it is to be seen.
 * - `business`: the producers' rows, each with the events that its transaction recorded
 * - `key_position`: a counter for each ordering key, drawn inside the transaction that recorded: its row lock makes the
 *   order of the numbers the order of commit, whatever the engine's own lock does
 * - `effect`: a row each time that an effect was applied; `mended`: has a row once poison is none any more
 */
export const TABLES = `
CREATE TABLE business (transaction int PRIMARY KEY, events json NOT NULL);
CREATE TABLE key_position (ordering_key text PRIMARY KEY, last int NOT NULL);
CREATE TABLE key_order (ordering_key text NOT NULL, position int NOT NULL, event_id uuid NOT NULL);
CREATE TABLE effect (position bigint GENERATED ALWAYS AS IDENTITY, consumer text NOT NULL, event_id uuid NOT NULL,
  ordering_key text, transaction int NOT NULL);
CREATE TABLE mended (at timestamptz NOT NULL DEFAULT now());
CREATE SEQUENCE clumsiness`;

/** The effect of a step for one consumer: a row in `effect`, and what the step's trait makes of it. */
export const applyStep =
  (consumer: string) =>
  async (tx: Prisma.TransactionClient, { id, orderingKey, data }: ReceivedEvent<string, Step>) => {
    await tx.$executeRawUnsafe(
      'INSERT INTO effect (consumer, event_id, ordering_key, transaction) VALUES ($1, $2::uuid, $3, $4::int)',
      consumer,
      id,
      orderingKey ?? null,
      data.transaction,
    );
    if (data.trait === 'poison' && (await count(tx, 'SELECT count(*)::int AS n FROM mended')) === 0) {
      throw new TerminalError('Poison: not mended yet');
    }
    // A sequence counts on through a rollback: the next try goes well.
    if (data.trait === 'clumsy' && (await count(tx, "SELECT nextval('clumsiness')::int AS n")) % 2 === 1) {
      await tx.$executeRawUnsafe('SELECT 1 / 0').catch(() => undefined);
    }
  };

async function count(tx: Prisma.TransactionClient, text: string): Promise<number> {
  const [row] = await tx.$queryRawUnsafe<{ n: number }[]>(text);
  return row?.n ?? 0;
}
