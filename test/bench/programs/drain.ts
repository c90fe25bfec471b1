// One contender in a process of its own: it warms up, prepares, waits for the word, drains, and says what it cost.

import { graphileContender } from '../contenders/graphile.ts';
import type { Job, MakeContender } from '../contenders/contender.ts';
import { relayContender, sdkContender, storeContender } from '../contenders/ours.ts';
import { pgBossContender } from '../contenders/pg-boss.ts';
import { outboxLibraryContender } from '../contenders/pg-transactional-outbox.ts';

/** What the parent sends first. */
export interface DrainRequest {
  readonly contender: keyof typeof CONTENDERS;
  readonly job: Job;
  readonly events: number;
  readonly warmUp: number;
  readonly capMs: number;
}

/** What it gets back. */
export interface DrainReport {
  readonly kind: 'drained';
  readonly events: number;
  readonly milliseconds: number;
  readonly cpuMs: number;
}

const CONTENDERS = {
  relay: relayContender,
  store: storeContender,
  sdk: sdkContender,
  pgBoss: pgBossContender,
  graphile: graphileContender,
  outboxLibrary: outboxLibraryContender,
} satisfies Record<string, MakeContender>;

process.on('disconnect', () => process.exit());
const next = <T>(): Promise<T> =>
  new Promise((resolve) => void process.once('message', (m) => resolve(m as T)));

const { contender: name, job, events, warmUp, capMs } = await next<DrainRequest>();
const contender = await CONTENDERS[name](job);
if (warmUp > 0) {
  await contender.prepare(warmUp);
  await contender.drain(warmUp, Math.min(capMs, 5_000));
}
await contender.prepare(events);
process.send?.({ kind: 'ready' });
await next();
const before = process.cpuUsage();
const drained = await contender.drain(events, capMs);
const { user, system } = process.cpuUsage(before);
process.send?.({ kind: 'drained', ...drained, cpuMs: (user + system) / 1000 } satisfies DrainReport);
