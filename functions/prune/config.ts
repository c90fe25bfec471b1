import type * as z from 'zod';
import { databaseShape, positive, readConfig, type Environment } from '../shared/config.ts';

/** Prune's settings; `npm test` holds the README's table against their descriptions. */
export const pruneShape = {
  ...databaseShape,
  retentionHours: positive().prefault('24').describe('How long published rows are kept.'),
  ledgerRetentionDays: positive()
    .prefault('35')
    .describe('How long applied events are kept. At least the sum of the three below.'),
  queueRetentionDays: positive().prefault('14').describe("The event queues' message retention."),
  deadLetterRetentionDays: positive().prefault('14').describe("The dead-letter queues' message retention."),
  replayHorizonDays: positive()
    .prefault('7')
    .describe('How long after that a person may still replay an event.'),
};

/** Prune's settings, read and checked. */
export type PruneConfig = z.output<z.ZodObject<typeof pruneShape>>;

/**
 * Reads prune's settings.
 *
 * @throws ConfigurationError also when the ledger would forget an event that can still be delivered
 */
export const pruneConfig = (environment: Environment): PruneConfig =>
  readConfig(pruneShape, environment, (config) => {
    const { queueRetentionDays, deadLetterRetentionDays, replayHorizonDays, ledgerRetentionDays } = config;
    const needed = queueRetentionDays + deadLetterRetentionDays + replayHorizonDays;
    if (ledgerRetentionDays >= needed) return [];
    return [
      `OUTBOX_LEDGER_RETENTION_DAYS: ${ledgerRetentionDays} is below ${needed} = queue (${queueRetentionDays}) + dead-letter (${deadLetterRetentionDays}) + replay (${replayHorizonDays}) days; a late delivery would be applied again`,
    ];
  });
