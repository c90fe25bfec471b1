import { z } from 'zod';
import {
  address,
  databaseShape,
  integer,
  json,
  positive,
  readConfig,
  type Environment,
} from '../shared/config.ts';

/** SQS's own limit for a message and for a call, in bytes. */
const SQS_MAX_BYTES = 1_048_576;

const destination = z.strictObject({
  kind: z.literal('sqs'),
  queueUrl: address,
  /** Bytes per message and per call; lower it where a queue or a consumer takes less. */
  maxBytes: z.int().min(1_024).max(SQS_MAX_BYTES).default(SQS_MAX_BYTES),
});

/** Where events of one destination go. */
export type Destination = z.output<typeof destination>;

/** The relay's settings; `npm test` holds the README's table against their descriptions. */
export const relayShape = {
  ...databaseShape,
  destinations: json(z.record(z.string(), destination)).describe(
    'JSON object: destination name → `{"kind":"sqs","queueUrl":"…","maxBytes":1048576}`.',
  ),
  functionTimeoutSeconds: positive(900).prefault('25').describe("The function's own timeout."),
  leaseSeconds: positive(3_600)
    .prefault('30')
    .describe('How long a claim counts. Above the function timeout.'),
  claimLimit: integer(1, 1_000).prefault('100').describe('Rows per claim.'),
  claimsUnderway: integer(1, 8)
    .prefault('2')
    .describe('Claims held at once: the next is taken while this one is published.'),
  callsInFlight: integer(1, 64).prefault('16').describe('Calls to queues in flight at once.'),
  callTimeoutSeconds: positive(60).prefault('5').describe('When a call without an answer is given up.'),
  maxAttempts: integer(1, 1_000).prefault('10').describe('Claims of an event before it is parked.'),
  backoffBaseSeconds: positive(3_600).prefault('1').describe('Shortest wait after a failed attempt.'),
  backoffMaxSeconds: positive(86_400).prefault('300').describe('Longest wait after a failed attempt.'),
  keepPublished: z
    .enum(['true', 'false'])
    .prefault('true')
    .transform((text) => text === 'true')
    .describe('Keep published rows until prune; `false` deletes a row when it is acknowledged.'),
};

/** The relay's settings, read and checked. */
export type RelayConfig = z.output<z.ZodObject<typeof relayShape>>;

/**
 * Reads the relay's settings.
 *
 * @throws ConfigurationError when one is missing, malformed, unknown, or two contradict each other
 */
export const relayConfig = (environment: Environment): RelayConfig =>
  readConfig(relayShape, environment, (config) => {
    const problems = [];
    const { leaseSeconds, functionTimeoutSeconds, callTimeoutSeconds, poolSize, claimsUnderway } = config;
    if (leaseSeconds <= functionTimeoutSeconds) {
      problems.push(
        `OUTBOX_LEASE_SECONDS: ${leaseSeconds} is not above OUTBOX_FUNCTION_TIMEOUT_SECONDS (${functionTimeoutSeconds}); a running relay would lose its rows to the next`,
      );
    }
    if (functionTimeoutSeconds <= callTimeoutSeconds) {
      problems.push(
        `OUTBOX_FUNCTION_TIMEOUT_SECONDS: ${functionTimeoutSeconds} is not above OUTBOX_CALL_TIMEOUT_SECONDS (${callTimeoutSeconds}); a stalled call would take the whole run`,
      );
    }
    if (poolSize < claimsUnderway) {
      problems.push(
        `OUTBOX_POOL_SIZE: ${poolSize} is below OUTBOX_CLAIMS_UNDERWAY (${claimsUnderway}); claims would wait for a connection`,
      );
    }
    if (config.backoffMaxSeconds < config.backoffBaseSeconds) {
      problems.push(
        `OUTBOX_BACKOFF_MAX_SECONDS: ${config.backoffMaxSeconds} is below OUTBOX_BACKOFF_BASE_SECONDS (${config.backoffBaseSeconds})`,
      );
    }
    return problems;
  });
