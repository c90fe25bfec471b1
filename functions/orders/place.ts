import { v5 as uuidOfName } from 'uuid';
import type { PrismaClient } from '../../prisma/client/client.ts';
import { orderEvents, type OrderPlaced } from '../events/order.ts';
import { recorder } from '../outbox/record.ts';

const recordEvents = recorder(orderEvents, { source: '/orders', destination: 'stock' });
/** Namespace of the event ids made from order ids (RFC 9562, version 5). */
const PLACED = '6f1a3a52-5a0c-4c52-9d7b-0a4b52a3e9c1';

/** What placing an order came to. */
export interface Placed {
  readonly orderId: string;
  readonly eventId: string;
  /** False when the order id was known: nothing was written. */
  readonly isNew: boolean;
}

/** Writes the order and its `order.placed` event in one transaction. The same order id twice is one order and one event. */
export async function placeOrder(prisma: PrismaClient, order: OrderPlaced): Promise<Placed> {
  const { orderId, sku, quantity, note = null } = order;
  const eventId = uuidOfName(orderId, PLACED);
  const isNew = await prisma.$transaction(async (tx) => {
    const { count } = await tx.order.createMany({
      data: [{ id: orderId, sku, quantity, note }],
      skipDuplicates: true,
    });
    if (count === 0) return false;
    await recordEvents(tx, [{ id: eventId, type: 'order.placed', payload: order }]);
    return true;
  });
  return { orderId, eventId, isNew };
}
