import * as z from 'zod';
import { defineEvents } from '../outbox/event.ts';

/** Text as PostgreSQL and UTF-8 can hold it: no NUL, no half of a surrogate pair. */
const text = (max: number) =>
  z
    .string()
    .max(max)
    .refine(
      (value) => value.isWellFormed() && !value.includes('\0'),
      'has a character that cannot be stored',
    );

const orderId = text(100).min(1);

/** The example's event types: what orders records, and stock and history apply. */
export const orderEvents = defineEvents({
  'order.placed': z.object({
    orderId,
    sku: text(100).min(1),
    quantity: z.int().min(1).max(1_000_000),
    note: text(2_000).optional(),
  }),
  'order.paid': z.object({ orderId }),
  'order.shipped': z.object({ orderId }),
});

/** Payload of `order.placed`. */
export type OrderPlaced = z.output<(typeof orderEvents.schemas)['order.placed']>;
