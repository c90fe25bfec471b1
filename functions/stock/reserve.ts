import type { Prisma } from '../../prisma/client/client.ts';
import type { OrderPlaced } from '../events/order.ts';
import { TerminalError } from '../shared/errors.ts';

/**
 * Takes an order's units from its stock, never below zero.
 *
 * @throws Error when the SKU is unknown (it may appear later) or was filled up just now: the order is tried again
 * @throws TerminalError when too few are left: no retry of this order may jump ahead of the next delivery
 */
export async function reserveStock(
  tx: Prisma.TransactionClient,
  { orderId, sku, quantity }: OrderPlaced,
): Promise<void> {
  const { count } = await tx.stockBalance.updateMany({
    where: { sku, available: { gte: quantity } },
    data: { available: { decrement: quantity } },
  });
  if (count === 1) return;
  const balance = await tx.stockBalance.findUnique({ where: { sku } });
  if (!balance) throw new Error(`UnknownSku: ${sku}, of order ${orderId}`);
  // Filled up between the two statements: not a shortage.
  if (balance.available >= quantity) throw new Error(`JustFilledUp: ${sku}, of order ${orderId}`);
  throw new TerminalError(
    `Shortage: order ${orderId} wants ${quantity} of ${sku}, ${balance.available} are left`,
  );
}
