import { databaseAdapter, relay, relayConfig } from 'prisma-outbox-relay';
import { PrismaClient } from '<client>';

const config = relayConfig(process.env);

export const handler = relay({ prisma: new PrismaClient({ adapter: databaseAdapter(config) }), config });
