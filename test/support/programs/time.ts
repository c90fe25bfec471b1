// Records, claims and prunes in a process of its own, whose time zone is not the database's.

import { randomUUID } from 'node:crypto';
import { writeEnvelope } from '../../../functions/outbox/envelope.ts';
import { recordEvents } from '../../../functions/outbox/record.ts';
import { pruneOutbox } from '../../../functions/prune/prune.ts';
import { claimDue } from '../../../functions/relay/claim.ts';
import { storeOf } from '../../../functions/shared/store.ts';
import { createPrisma } from '../prisma.ts';

/** What a test may ask for; each is answered by `{ answer }` or `{ error }`. */
export type Ask =
  | { do: 'zones' }
  | { do: 'record'; type: string; dueAt?: Date; delaySeconds?: number }
  | { do: 'claim'; dueFrom?: number }
  | { do: 'prune'; retentionHours: number };

/** A claimed event as it would travel. */
export interface Claimed {
  type: string;
  dueAt: number;
  body: string;
}

const prisma = createPrisma(process.env['DATABASE_URL'] ?? '', { max: 1 });
const store = storeOf(prisma);

async function answer(ask: Ask): Promise<unknown> {
  switch (ask.do) {
    case 'zones': {
      const [row] = await store.query<{ TimeZone: string }>('SHOW TimeZone', []);
      return { process: new Date(0).getHours(), database: row?.TimeZone };
    }
    case 'record': {
      const { do: _, ...event } = ask;
      const whole = { ...event, payload: {}, source: '/orders', destinations: ['stock'] };
      return prisma.$transaction((tx) => recordEvents(tx, [whole]));
    }
    case 'claim': {
      const lease = { token: randomUUID(), leaseSeconds: 30 };
      const { events } = await claimDue(store, lease, {
        limit: 10,
        bytes: 8_388_608,
        dueFrom: ask.dueFrom ?? null,
      });
      return events.map((event): Claimed => ({
        type: event.type,
        dueAt: event.dueAt,
        body: writeEnvelope(event),
      }));
    }
    case 'prune':
      return pruneOutbox(store, ask.retentionHours, () => 10_000);
  }
}

process.on('message', (ask: Ask & { number: number }) => {
  const { number, ...rest } = ask;
  answer(rest).then(
    (value) => process.send?.({ number, answer: value }),
    (error: unknown) => process.send?.({ number, error: String(error) }),
  );
});
