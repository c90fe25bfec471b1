import { z } from 'zod';
import { defineEvents } from '../outbox/event.ts';

/** The example's event types: what orders records and stock applies. */
export const orderEvents = defineEvents({
  'order.placed': z.object({
    orderId: z.string().min(1).max(100),
    sku: z.string().min(1).max(100),
    quantity: z.int().min(1).max(1_000_000),
    note: z.string().max(2_000).optional(),
  }),
});

/** Payload of `order.placed`. */
export type OrderPlaced = z.output<(typeof orderEvents.schemas)['order.placed']>;
