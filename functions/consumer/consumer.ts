import { SQSClient } from '@aws-sdk/client-sqs';
// oxlint-disable-next-line import/no-named-as-default -- its types export only the default
import middy, { type MiddlewareObj } from '@middy/core';
import type { Context, SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { isName, NAME } from '../outbox/envelope.ts';
import type { EventTypes, ReceivedOf, Schemas } from '../outbox/event.ts';
import { invocationTimeLeft } from '../shared/deadline.ts';
import { nameInvocation, report } from '../shared/report.ts';
import type { RootClient, TransactionClient } from '../shared/store.ts';
import type { Effect } from './apply.ts';
import { applyBatch } from './batch.ts';
import type { ConsumerConfig } from './config.ts';
import type { ConsumerParts } from './parts.ts';
import { countOutcomes, settleRecords } from './settle.ts';

/** Of the invocation, kept for what follows the last record. */
const SETTLE_MARGIN_MS = 1_000;
/** Of that, kept for the answer itself. */
const ANSWER_MARGIN_MS = 200;

/** What a consumer is made of. */
export interface ConsumerOptions<S extends Schemas, Tx extends TransactionClient> {
  /** Its name in the ledger; another name applies every event again. */
  readonly name: string;
  /** The declared event types. */
  readonly events: EventTypes<S>;
  /** What to do for each type, through `tx` alone. A type without an effect is terminal. */
  readonly effects: {
    readonly [T in keyof S & string]?: (tx: Tx, event: ReceivedOf<S, T>) => Promise<unknown>;
  };
  readonly prisma: RootClient<Tx>;
  readonly config: ConsumerConfig;
  /** `batch` puts a whole batch into one transaction (faster), and falls back to one per record on any error. */
  readonly transactionPer?: 'record' | 'batch';
  /** middy middlewares around the batch. */
  readonly middlewares?: readonly MiddlewareObj<SQSEvent, SQSBatchResponse>[];
  readonly sqs?: SQSClient;
}

/**
 * Makes the Lambda handler of a consumer: each record's effect is applied exactly once, however often it is delivered.
 * A record that failed is reported alone; the response is always built here, so nothing that failed is ever deleted.
 *
 * @throws TypeError at once when the name is none
 * @throws (the handler) when the event is not from SQS or a middleware failed or replaced the response: the whole batch
 *   is then delivered again, and what was applied is recognised
 */
export function consumer<S extends Schemas, Tx extends TransactionClient>(options: ConsumerOptions<S, Tx>) {
  const { name, events, effects, prisma, config, transactionPer = 'record', middlewares = [] } = options;
  if (!isName(name)) throw new TypeError(`consumer: name: expected ${NAME}`);
  const parts: ConsumerParts = {
    name,
    types: events,
    // Each effect is called only with an event of its own type, checked against that type's schema.
    effects: effects as Readonly<Record<string, Effect | undefined>>,
    prisma,
    config,
    transactionPer,
    sqs: options.sqs ?? new SQSClient({ maxAttempts: 2 }),
    report,
    random: Math.random,
  };
  /** Our responses, and the records that each speaks for. */
  const ours = new WeakMap<SQSBatchResponse, ReadonlySet<unknown>>();
  const wrapped = middy<SQSEvent, SQSBatchResponse>(async (event: SQSEvent, context: Context) => {
    const response = await handleBatch(parts, event, context);
    ours.set(response, new Set(event.Records.map(({ messageId }) => messageId)));
    return response;
  }).use([...middlewares]);

  return async (event: SQSEvent, context: Context): Promise<SQSBatchResponse> => {
    const delivered = Array.isArray(event?.Records) ? event.Records.map((record) => record?.messageId) : [];
    const response = await wrapped(event, context);
    const handled = ours.get(response);
    // Lambda deletes every message that the response does not name.
    if (!handled) throw new Error(`consumer ${name}: a middleware replaced the batch response`);
    if (delivered.some((id) => !handled.has(id))) {
      throw new Error(`consumer ${name}: a middleware took records out of the batch`);
    }
    return response;
  };
}

async function handleBatch(
  parts: ConsumerParts,
  event: SQSEvent,
  context: Context,
): Promise<SQSBatchResponse> {
  const records = event?.Records;
  if (!Array.isArray(records) || records.some((record) => !record?.messageId)) {
    throw new TypeError(`consumer ${parts.name}: expected an SQS event with Records, each with a messageId`);
  }
  nameInvocation(context);
  const began = performance.now();
  const results = await applyBatch(parts, records, invocationTimeLeft(context, SETTLE_MARGIN_MS));
  const failed = await settleRecords(parts, results, invocationTimeLeft(context, ANSWER_MARGIN_MS));
  const milliseconds = Math.round(performance.now() - began);
  parts.report('consumer.batch', { consumer: parts.name, ...countOutcomes(results), milliseconds });
  const failures = failed.map(({ messageId }) => ({ itemIdentifier: messageId }));
  // Frozen: a middleware that took a failure out of it would have its message deleted.
  Object.freeze(failures);
  return Object.freeze({ batchItemFailures: failures });
}
