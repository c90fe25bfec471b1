// pg-boss 12: a handler per batch, which publishes it; pg-boss completes its jobs when the handler returns.

import { loadPeer } from '../harness/peers.ts';
import { bodyOf, Counter, payloadText, type MakeContender } from './contender.ts';
import { publisherTo } from './publisher.ts';

interface PgBoss {
  on(event: 'error', listener: (error: unknown) => void): void;
  start(): Promise<unknown>;
  createQueue(name: string, options?: object): Promise<void>;
  insert(name: string, jobs: readonly object[]): Promise<unknown>;
  work(name: string, options: object, handler: (jobs: { data: object }[]) => Promise<void>): Promise<string>;
  offWork(name: string): Promise<void>;
  send(name: string, data: object): Promise<unknown>;
  stop(): Promise<void>;
}

/** A started pg-boss with a queue `outbox`. */
export async function startPgBoss(url: string, options: object = {}, queue: object = {}): Promise<PgBoss> {
  const { PgBoss } = await loadPeer<{ PgBoss: new (options: object) => PgBoss }>('pg-boss');
  const boss = new PgBoss({ connectionString: url, supervise: false, schedule: false, ...options });
  boss.on('error', (error) => void process.stderr.write(`pg-boss: ${String(error)}\n`));
  await boss.start();
  await boss.createQueue('outbox', { retryLimit: 5, ...queue });
  return boss;
}

export const pgBossContender: MakeContender = async ({ databaseUrl, nearDatabaseUrl, queueUrl, options }) => {
  const near = await startPgBoss(nearDatabaseUrl);
  const boss = await startPgBoss(databaseUrl);
  const publisher = publisherTo(queueUrl);
  const counter = new Counter();
  return {
    prepare: async (count) => {
      for (let from = 0; from < count; from += 1_000) {
        const jobs = Array.from({ length: Math.min(1_000, count - from) }, (_, n) => ({
          data: JSON.parse(payloadText(from + n)) as object,
        }));
        await near.insert('outbox', jobs);
      }
    },
    drain: (count, capMs) =>
      counter.during(
        count,
        capMs,
        () =>
          boss.work('outbox', { ...options }, async (jobs) => {
            counter.begin();
            await publisher.all(jobs.map(({ data }) => bodyOf(JSON.stringify(data))));
            counter.add(jobs.length);
          }),
        () => boss.offWork('outbox'),
      ),
  };
};
