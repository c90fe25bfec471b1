import { SQSClient } from '@aws-sdk/client-sqs';
import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2 } from 'aws-lambda';
import { orderEvents } from '../events/order.ts';
import { nudger } from '../outbox/nudge.ts';
import { address, databaseShape, readConfig } from '../shared/config.ts';
import { connect } from '../shared/database.ts';
import { placeOrder } from './place.ts';

const config = readConfig(
  { ...databaseShape, tickQueueUrl: address.describe('The tick queue, for the nudge after a commit.') },
  process.env,
);
const prisma = connect(config);
const nudge = nudger({ sqs: new SQSClient({ maxAttempts: 1 }), tickQueueUrl: config.tickQueueUrl });
const schema = orderEvents.schemas['order.placed'];

/** POST /orders: 201 for a new order, 200 for one that was posted before, 400 naming the field that is wrong. */
export async function handler(event: APIGatewayProxyEventV2): Promise<APIGatewayProxyStructuredResultV2> {
  const parsed = schema.safeParse(readBody(event));
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    return answer(400, { error: issue?.message, field: issue?.path.join('.') || 'body' });
  }
  const { isNew, ...placed } = await placeOrder(prisma, parsed.data);
  if (isNew) await nudge();
  return answer(isNew ? 201 : 200, placed);
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
