import type * as z from 'zod';
import { address, databaseShape, integer, positive, readConfig, type Environment } from '../shared/config.ts';

/** A consumer's settings; `npm test` holds the README's table against their descriptions. */
export const consumerShape = {
  ...databaseShape,
  queueUrl: address.describe('The queue that triggers the consumer; its retries are delayed there.'),
  deadLetterQueueUrl: address
    .optional()
    .describe(
      'Where terminal records go at once. Without it they are retried until the redrive policy moves them.',
    ),
  functionTimeoutSeconds: positive(900).prefault('30').describe("The function's own timeout."),
  queueVisibilitySeconds: positive(43_200)
    .prefault('185')
    .describe("The queue's visibility timeout. At least six times the function timeout."),
  concurrency: integer(1, 100).prefault('4').describe('Records applied at once. At most the pool size.'),
  retryBaseSeconds: positive(43_200)
    .prefault('2')
    .describe('Shortest wait before a failed record is redelivered.'),
  retryMaxSeconds: positive(43_200)
    .prefault('900')
    .describe('Longest wait before a failed record is redelivered.'),
};

/** A consumer's settings, read and checked. */
export type ConsumerConfig = z.output<z.ZodObject<typeof consumerShape>>;

/**
 * Reads a consumer's settings.
 *
 * @throws ConfigurationError when one is missing, malformed, unknown, or two contradict each other
 */
export const consumerConfig = (environment: Environment): ConsumerConfig =>
  readConfig(consumerShape, environment, (config) => {
    const problems = [];
    const { queueVisibilitySeconds, functionTimeoutSeconds, concurrency, poolSize } = config;
    if (queueVisibilitySeconds < 6 * functionTimeoutSeconds) {
      problems.push(
        `OUTBOX_QUEUE_VISIBILITY_SECONDS: ${queueVisibilitySeconds} is below six times OUTBOX_FUNCTION_TIMEOUT_SECONDS (${functionTimeoutSeconds}); records would come again while they are being applied`,
      );
    }
    if (concurrency > poolSize) {
      problems.push(
        `OUTBOX_CONCURRENCY: ${concurrency} is above OUTBOX_POOL_SIZE (${poolSize}); records would wait for a connection`,
      );
    }
    if (config.retryMaxSeconds < config.retryBaseSeconds) {
      problems.push(
        `OUTBOX_RETRY_MAX_SECONDS: ${config.retryMaxSeconds} is below OUTBOX_RETRY_BASE_SECONDS (${config.retryBaseSeconds})`,
      );
    }
    return problems;
  });
