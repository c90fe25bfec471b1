import { PrismaPg } from '@prisma/adapter-pg';
import { Pool, type ClientConfig, type PoolConfig } from 'pg';
import { connectionSettings, type ConnectionConfig } from './connection.ts';
import { renewOnRefusal } from './rotation.ts';

/** Where and how wide to connect. */
export interface DatabaseConfig extends ConnectionConfig {
  readonly poolSize: number;
}

/**
 * Prisma's driver adapter over a pool of its own: `new PrismaClient({ adapter: databaseAdapter(config) })`, whichever
 * client that is. Nothing connects, and no secret is read, until the first query.
 *
 * @throws ConfigurationError when DATABASE_CA_FILE cannot be read
 */
export function databaseAdapter({
  poolSize,
  ...config
}: DatabaseConfig): Pick<PrismaPg, 'provider' | 'adapterName' | 'connect'> {
  const readSettings = connectionSettings(config);
  return {
    provider: 'postgres',
    adapterName: '@prisma/adapter-pg',
    connect: async () => {
      const pool = poolOf(await readSettings(), poolSize);
      if (config.databaseSecretArn !== undefined) renewOnRefusal(pool, readSettings);
      return new PrismaPg(pool, { disposeExternalPool: true }).connect();
    },
  };
}

/**
 * A connection attempt gives up after 5 s; an idle connection lives 60 s, longer than the gap between two ticks.
 * A connection may fail between the pool's handing it out and Prisma's listening to it; with nobody listening, Node would
 * end the process. Whoever uses the connection next is told of it anyway.
 * No `statement_timeout` or other start-up parameter: RDS Proxy refuses or pins on them.
 */
function poolOf(settings: ClientConfig, poolSize: number): Pool {
  const options: PoolConfig = {
    ...settings,
    max: poolSize,
    connectionTimeoutMillis: 5_000,
    idleTimeoutMillis: 60_000,
    onConnect: (client) => void client.on('error', () => undefined),
  };
  return new Pool(options);
}
