// A sandbox: a process that runs the real handlers, one invocation after another, until it is killed. It stays warm
// from history to history; what belongs to one history (its database, its queues) goes when that one is over.

import type { Context, SQSEvent } from 'aws-lambda';
import { consumer } from '../../functions/consumer/consumer.ts';
import type { ConsumerConfig } from '../../functions/consumer/config.ts';
import type { RelayConfig } from '../../functions/relay/config.ts';
import { relay } from '../../functions/relay/relay.ts';
import { connect } from '../../functions/shared/database.ts';
import { describeError } from '../../functions/shared/errors.ts';
import type { PrismaClient } from '../../prisma/client/client.ts';
import { applyStep, events, STEP } from './effects.ts';

/** What a sandbox is made into; the same text makes the same handler go on. */
export type Role = { /** Of the queues. */ readonly endpoint: string } & (
  | { readonly kind: 'relay'; readonly config: RelayConfig }
  | {
      readonly kind: 'consumer';
      readonly config: ConsumerConfig;
      readonly name: string;
      readonly transactionPer: 'record' | 'batch';
    }
);

/** One invocation, or the end of a history. Answered by `{ number, answer }` or `{ number, error }`. */
export type Order =
  | { readonly number: number; readonly role: Role; readonly event: unknown; readonly leftMs: number }
  | { readonly number: number; readonly rest: true };

type Handler = (event: never, context: Context) => Promise<unknown>;

let current: { text: string; prisma: PrismaClient; handler: Handler } | undefined;

async function rest(): Promise<void> {
  const { prisma } = current ?? {};
  current = undefined;
  await prisma?.$disconnect();
}

async function become(role: Role): Promise<Handler> {
  const text = JSON.stringify(role);
  if (current?.text === text) return current.handler;
  await rest();
  // The SDK's client reads it when the handler is made.
  process.env['AWS_ENDPOINT_URL_SQS'] = role.endpoint;
  const prisma = connect(role.config);
  const handler = handlerOf(role, prisma);
  current = { text, prisma, handler };
  return handler;
}

function handlerOf(role: Role, prisma: PrismaClient): Handler {
  if (role.kind === 'relay') return relay({ prisma, config: role.config });
  const { name, config, transactionPer } = role;
  const handler = consumer({
    name,
    events,
    effects: { [STEP]: applyStep(name) },
    prisma,
    config,
    transactionPer,
  });
  return (event: SQSEvent, context) => handler(event, context);
}

async function obey(order: Order): Promise<unknown> {
  if ('rest' in order) return rest();
  const handler = await become(order.role);
  const end = performance.now() + order.leftMs;
  const context = { getRemainingTimeInMillis: () => end - performance.now() } as Context;
  return handler(order.event as never, context);
}

process.on('message', (order: Order) => {
  obey(order).then(
    (answer) => process.send?.({ number: order.number, answer }),
    (error: unknown) => process.send?.({ number: order.number, error: describeError(error) }),
  );
});
// Whoever started it is gone.
process.on('disconnect', () => process.exit(0));
process.send?.({ ready: true });
