// The relay's real handler in a process of its own: one invocation, whose counts it sends back.

import type { Context } from 'aws-lambda';
import type { RelayConfig } from '../../../functions/relay/config.ts';
import { partsOf, relay } from '../../../functions/relay/relay.ts';
import { tick } from '../../../functions/relay/tick.ts';
import { createPrisma } from '../prisma.ts';

/** Its one argument, as JSON. */
export interface RelayOrder {
  config: RelayConfig;
  budgetMs: number;
  /** Claims, says `{ holding: true }`, and then never sends. */
  holdsBeforeSending?: boolean;
}

const { config, budgetMs, holdsBeforeSending } = JSON.parse(process.argv[2] ?? '') as RelayOrder;
const prisma = createPrisma(config.databaseUrl ?? '', { max: config.poolSize });

if (holdsBeforeSending) await tick({ ...partsOf(prisma, config), calls: hold }, () => budgetMs);
const context = { getRemainingTimeInMillis: () => budgetMs } as Context;
const counts = await relay({ prisma, config })({}, context);
process.send?.({ counts });
await prisma.$disconnect();
process.disconnect();

function hold(): Promise<never> {
  process.send?.({ holding: true });
  return new Promise<never>(() => {});
}
