import { databaseAdapter, gauge, gaugeConfig } from 'prisma-outbox-relay';
import { PrismaClient } from '<client>';

const config = gaugeConfig(process.env);

export const handler = gauge({ prisma: new PrismaClient({ adapter: databaseAdapter(config) }) });
