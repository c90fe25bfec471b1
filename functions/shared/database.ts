import { PrismaClient } from '../../prisma/client/client.ts';
import { databaseAdapter, type DatabaseConfig } from './adapter.ts';

/** This service's own Prisma client. Throws as `databaseAdapter` does. */
export const connect = (config: DatabaseConfig): PrismaClient =>
  new PrismaClient({ adapter: databaseAdapter(config) });
