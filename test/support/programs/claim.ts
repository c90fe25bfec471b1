// Claims in a process of its own: answers { go: ClaimOrder } with the sequences it won.

import { claimDue, type Lease } from '../../../functions/relay/claim.ts';
import { storeOf } from '../../../functions/shared/store.ts';
import { createPrisma } from '../prisma.ts';

/** What to claim, and how. */
export type ClaimOrder = Lease & { readonly limit: number; readonly dueFrom: number | null };

const prisma = createPrisma(process.env['DATABASE_URL'] ?? '', { max: 1 });
// Connected before the race begins.
await prisma.$queryRawUnsafe('SELECT 1');
process.send?.({ ready: true, now: Date.now() });

process.on('message', ({ go }: { go: ClaimOrder }) => {
  void claimDue(storeOf(prisma), go, { ...go, bytes: 8_388_608 }).then(({ token, events }) =>
    process.send?.({ token, sequences: events.map(({ sequence }) => sequence) }),
  );
});
