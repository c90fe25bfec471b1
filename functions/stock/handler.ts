import { consumer } from '../consumer/consumer.ts';
import { consumerConfig } from '../consumer/config.ts';
import { orderEvents } from '../events/order.ts';
import { connect } from '../shared/database.ts';
import { reserveStock } from './reserve.ts';

const config = consumerConfig(process.env);

/** Applies `order.placed` to the stock, once each. */
export const handler = consumer({
  name: 'stock',
  events: orderEvents,
  effects: { 'order.placed': (tx, { data }) => reserveStock(tx, data) },
  prisma: connect(config),
  config,
});
