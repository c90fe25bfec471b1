import type * as z from 'zod';
import { databaseShape, readConfig, type Environment } from '../shared/config.ts';

/** The gauge's settings: the database's alone. */
export const gaugeShape = { ...databaseShape };

/** The gauge's settings, read and checked. */
export type GaugeConfig = z.output<z.ZodObject<typeof gaugeShape>>;

/** Reads the gauge's settings. Throws ConfigurationError when one is missing, malformed or unknown. */
export const gaugeConfig = (environment: Environment): GaugeConfig => readConfig(gaugeShape, environment);
