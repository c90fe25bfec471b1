import { PrismaPg } from '@prisma/adapter-pg';
import { PrismaClient } from '../../prisma/client/client.ts';

/** Where and how wide to connect. */
export interface DatabaseConfig {
  readonly databaseUrl: string;
  readonly poolSize: number;
}

/**
 * A Prisma client over its own pool. Nothing connects until the first query.
 * A connection attempt gives up after 5 s; an idle connection lives 60 s, longer than the gap between two ticks.
 * A connection may fail between the pool's handing it out and Prisma's listening to it; with nobody listening, Node would
 * end the process. Whoever uses the connection next is told of it anyway.
 * No `statement_timeout` or other start-up parameter: RDS Proxy refuses or pins on them.
 */
export function connect({ databaseUrl, poolSize }: DatabaseConfig): PrismaClient {
  return new PrismaClient({
    adapter: new PrismaPg({
      connectionString: databaseUrl,
      max: poolSize,
      connectionTimeoutMillis: 5_000,
      idleTimeoutMillis: 60_000,
      onConnect: (client) => void client.on('error', () => undefined),
    }),
  });
}
