import * as z from 'zod';
import { databaseShape, integer, json, positive, readConfig, type Environment } from '../shared/config.ts';
import { destinationsShape } from './destination.ts';

/** Of the function's timeout, what a run needs beside a call: to claim, to settle, to answer. */
const RUN_SECONDS = 3;

/** The relay's settings; `npm test` holds the README's table against their descriptions. */
export const relayShape = {
  ...databaseShape,
  destinations: json(destinationsShape).describe(
    'JSON object: destination name → `{"kind":"sqs","queueUrl":"…"}` or `{"kind":"eventbridge","busName":"…"}`; see [Destinations](#destinations).',
  ),
  operationsDestination: z
    .string()
    .optional()
    .describe('Destination that is told of parked events and a late backlog; unset: nobody is.'),
  backlogLateSeconds: positive(86_400)
    .prefault('300')
    .describe('Age of a due event from which the backlog is late.'),
  functionTimeoutSeconds: positive(900).prefault('25').describe("The function's own timeout."),
  leaseSeconds: positive(3_600)
    .prefault('30')
    .describe('How long a claim counts. Above the function timeout.'),
  claimLimit: integer(1, 1_000).prefault('100').describe('Rows per claim.'),
  claimBytes: integer(1, 1_073_741_824)
    .prefault('8388608')
    .describe('Bytes of payload per claim; an event alone may have more.'),
  claimsUnderway: integer(1, 8)
    .prefault('4')
    .describe(
      'Claims of events without ordering key held at once, fewer than `OUTBOX_POOL_SIZE`: the next is taken while one is published.',
    ),
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
    if (functionTimeoutSeconds < callTimeoutSeconds + RUN_SECONDS) {
      problems.push(
        `OUTBOX_FUNCTION_TIMEOUT_SECONDS: ${functionTimeoutSeconds} is not above OUTBOX_CALL_TIMEOUT_SECONDS (${callTimeoutSeconds}); with the ${RUN_SECONDS} s that claiming and settling take; a stalled call would take the whole run`,
      );
    }
    const { operationsDestination, destinations } = config;
    if (operationsDestination !== undefined && !Object.hasOwn(destinations, operationsDestination)) {
      problems.push(
        `OUTBOX_OPERATIONS_DESTINATION: ${operationsDestination} is not in OUTBOX_DESTINATIONS (${Object.keys(destinations).join(', ')})`,
      );
    }
    if (poolSize <= claimsUnderway) {
      problems.push(
        `OUTBOX_POOL_SIZE: ${poolSize} is not above OUTBOX_CLAIMS_UNDERWAY (${claimsUnderway}, and one for ordering keys); claims would wait for a connection`,
      );
    }
    if (config.backoffMaxSeconds < config.backoffBaseSeconds) {
      problems.push(
        `OUTBOX_BACKOFF_MAX_SECONDS: ${config.backoffMaxSeconds} is below OUTBOX_BACKOFF_BASE_SECONDS (${config.backoffBaseSeconds})`,
      );
    }
    return problems;
  });
