import type { Context } from 'aws-lambda';
import { fileURLToPath } from 'node:url';
import { connectionShape, readConfig } from '../shared/config.ts';
import { connectionSettings } from '../shared/connection.ts';
import { nameInvocation, report } from '../shared/report.ts';
import { deployMigrations } from './migrate.ts';

/** The zip keeps the repository's layout, so the folder is in the same place on Lambda and in a checkout. */
const directory = fileURLToPath(new URL('../../prisma/migrations', import.meta.url));

const readSettings = connectionSettings(readConfig(connectionShape, process.env));

/**
 * Applies the packaged migrations. Invoke it once per deploy: `serverless invoke --function migrate`. The event's
 * content does not matter.
 *
 * @returns the names of the migrations applied now, in order.
 * @throws as `deployMigrations` does.
 */
export async function handler(_event: unknown, context: Context): Promise<{ applied: string[] }> {
  nameInvocation(context);
  const applied = await deployMigrations({
    connection: await readSettings(),
    directory,
    log: (what) => report('migrate', { what }),
  });
  return { applied };
}
