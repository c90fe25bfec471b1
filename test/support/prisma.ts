import { PrismaPg } from '@prisma/adapter-pg';
import { PrismaClient } from '../../prisma/client/client.ts';
import { afterwards } from './cleanup.ts';

/**
 * A PrismaClient on adapter-pg, disconnected when the test ends. This file knows nothing of Vitest, so programs run
 * by `startProcess` can use it too.
 * @param max connections of its pool, pg's ten by default.
 */
export function createPrisma(url: string, { max = 10 }: { max?: number } = {}): PrismaClient {
  const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: url, max }) });
  afterwards(() => prisma.$disconnect());
  return prisma;
}
