import { v5 as uuidOfName } from 'uuid';
import type { PrismaClient } from '../../prisma/client/client.ts';
import { orderEvents, type OrderPlaced } from '../events/order.ts';
import { recorder } from '../outbox/record.ts';

const recordEvents = recorder(orderEvents, {
  source: '/orders',
  routes: { 'order.placed': ['stock'], 'order.paid': ['history'], 'order.shipped': ['history'] },
});
/** Namespace of the event ids made from order ids (RFC 9562, version 5). */
const ORDERS = '6f1a3a52-5a0c-4c52-9d7b-0a4b52a3e9c1';

/** What a request came to. */
export interface Outcome {
  readonly orderId: string;
  readonly eventId: string;
  /** False when it had been done before: nothing was written. */
  readonly isNew: boolean;
}

/** Writes the order and its `order.placed` event in one transaction. The same order id twice is one order and one event. */
export async function placeOrder(prisma: PrismaClient, order: OrderPlaced): Promise<Outcome> {
  const { orderId, sku, quantity, note = null } = order;
  const eventId = uuidOfName(orderId, ORDERS);
  const isNew = await prisma.$transaction(async (tx) => {
    const { count } = await tx.order.createMany({
      data: [{ id: orderId, sku, quantity, note }],
      skipDuplicates: true,
    });
    if (count === 0) return false;
    const placed = { id: eventId, type: 'order.placed', payload: order } as const;
    // The stock takes orders as they come; the history wants each order's steps in order.
    await recordEvents(tx, [placed, { ...placed, destinations: ['history'], orderingKey: orderId }]);
    return true;
  });
  return { orderId, eventId, isNew };
}

/** The next step of an order, and the one before it. */
const BEFORE = { paid: 'placed', shipped: 'paid' } as const;

/** A step that an order can take once it is placed. */
export type Step = keyof typeof BEFORE;

/**
 * Takes an order one step further and records it in the same transaction.
 *
 * @returns undefined when the order is unknown or not yet so far
 */
export async function advanceOrder(
  prisma: PrismaClient,
  orderId: string,
  step: Step,
): Promise<Outcome | undefined> {
  const eventId = uuidOfName(`${orderId} ${step}`, ORDERS);
  return prisma.$transaction(async (tx) => {
    const { count } = await tx.order.updateMany({
      where: { id: orderId, status: BEFORE[step] },
      data: { status: step },
    });
    if (count === 1) {
      await recordEvents(tx, [
        { id: eventId, type: `order.${step}`, orderingKey: orderId, payload: { orderId } },
      ]);
      return { orderId, eventId, isNew: true };
    }
    const order = await tx.order.findUnique({ where: { id: orderId } });
    const isPast = order?.status === step || (step === 'paid' && order?.status === 'shipped');
    return isPast ? { orderId, eventId, isNew: false } : undefined;
  });
}
