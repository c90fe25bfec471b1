import type * as z from 'zod';
import { address, databaseShape, readConfig, type Environment } from '../shared/config.ts';

/** The example producer's settings; `npm test` holds the README's table against their descriptions. */
export const ordersShape = {
  ...databaseShape,
  tickQueueUrl: address.describe('The tick queue, for the nudge after a commit.'),
};

/** The example producer's settings, read and checked. */
export type OrdersConfig = z.output<z.ZodObject<typeof ordersShape>>;

/** Reads the producer's settings. Throws ConfigurationError when one is missing, malformed or unknown. */
export const ordersConfig = (environment: Environment): OrdersConfig => readConfig(ordersShape, environment);
