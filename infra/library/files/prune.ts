import { databaseAdapter, prune, pruneConfig } from 'prisma-outbox-relay';
import { PrismaClient } from '<client>';

const config = pruneConfig(process.env);

export const handler = prune({ prisma: new PrismaClient({ adapter: databaseAdapter(config) }), config });
