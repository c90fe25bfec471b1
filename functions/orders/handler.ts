import { SQSClient } from '@aws-sdk/client-sqs';
import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2 } from 'aws-lambda';
import type { ZodError } from 'zod';
import { orderEvents } from '../events/order.ts';
import { nudger } from '../outbox/nudge.ts';
import { connect } from '../shared/database.ts';
import { ordersConfig } from './config.ts';
import { advanceOrder, placeOrder, type Outcome, type Step } from './place.ts';

const config = ordersConfig(process.env);
const prisma = connect(config);
const nudge = nudger({ sqs: new SQSClient({ maxAttempts: 1 }), tickQueueUrl: config.tickQueueUrl });
const { schemas } = orderEvents;
const STEPS: Readonly<Record<string, Step>> = {
  'POST /orders/{orderId}/payment': 'paid',
  'POST /orders/{orderId}/shipment': 'shipped',
};

/**
 * POST /orders, /orders/{orderId}/payment and /orders/{orderId}/shipment: 201 for what is new, 200 for what was done
 * before, 400 naming the field that is wrong, 409 for a step out of turn.
 */
export async function handler(event: APIGatewayProxyEventV2): Promise<APIGatewayProxyStructuredResultV2> {
  const step = STEPS[event.routeKey];
  if (step) {
    const parsed = schemas[`order.${step}`].safeParse(event.pathParameters);
    if (!parsed.success) return refuse(parsed.error);
    const { orderId } = parsed.data;
    const advanced = await advanceOrder(prisma, orderId, step);
    return advanced ? done(advanced) : answer(409, { error: `order ${orderId} cannot be ${step} now` });
  }
  const parsed = schemas['order.placed'].safeParse(readBody(event));
  return parsed.success ? done(await placeOrder(prisma, parsed.data)) : refuse(parsed.error);
}

const refuse = ({ issues: [issue] }: ZodError) =>
  answer(400, { error: issue?.message, field: issue?.path.join('.') || 'body' });

/** Nudges the relay after the commit, and answers. */
async function done({ isNew, ...ids }: Outcome): Promise<APIGatewayProxyStructuredResultV2> {
  if (isNew) await nudge();
  return answer(isNew ? 201 : 200, ids);
}

/** The JSON body, or undefined when it is none. */
function readBody({ body = '', isBase64Encoded }: APIGatewayProxyEventV2): unknown {
  try {
    return JSON.parse(isBase64Encoded ? Buffer.from(body, 'base64').toString() : body);
  } catch {
    return undefined;
  }
}

const answer = (statusCode: number, body: object) => ({
  statusCode,
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(body),
});
