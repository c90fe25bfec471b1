import type { Prisma } from '../../prisma/client/client.ts';
import { consumerConfig } from '../consumer/config.ts';
import { consumer } from '../consumer/consumer.ts';
import { orderEvents } from '../events/order.ts';
import { connect } from '../shared/database.ts';

const config = consumerConfig(process.env);

/** Appends what happened to an order; behind a FIFO queue, in the order in which it happened. */
const append = (step: string) => (tx: Prisma.TransactionClient, event: { data: { orderId: string } }) =>
  tx.orderHistory.create({ data: { orderId: event.data.orderId, step } });

/** Keeps the history of every order, each step once. */
export const handler = consumer({
  name: 'history',
  events: orderEvents,
  effects: {
    'order.placed': append('placed'),
    'order.paid': append('paid'),
    'order.shipped': append('shipped'),
  },
  prisma: connect(config),
  config,
  transactionPer: 'batch',
});
