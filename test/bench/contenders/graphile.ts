// graphile-worker: a task per job; ten of them, or those of 2 ms, share a call.

import { Client } from 'pg';
import { loadPeer } from '../harness/peers.ts';
import { bodyOf, Counter, PAYLOAD_SQL, type MakeContender } from './contender.ts';
import { publisherTo } from './publisher.ts';

export interface GraphileWorker {
  run(options: object): Promise<{ stop(): Promise<void> }>;
  runMigrations(options: object): Promise<void>;
  Logger: new (factory: () => () => void) => unknown;
}

/** The library with its schema in place, and a logger that says nothing. */
export async function loadGraphile(url: string): Promise<{ worker: GraphileWorker; logger: unknown }> {
  const worker = await loadPeer<GraphileWorker>('graphile-worker');
  const logger = new worker.Logger(() => () => undefined);
  await worker.runMigrations({ connectionString: url, logger });
  return { worker, logger };
}

const ADD_JOBS = `
SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(
  SELECT ('outbox', ${PAYLOAD_SQL}::json, NULL, now(), 25, NULL, NULL, NULL)::graphile_worker.job_spec
  FROM generate_series(1, $1::int) AS n))`;

export const graphileContender: MakeContender = async ({
  databaseUrl,
  nearDatabaseUrl,
  queueUrl,
  options,
}) => {
  const { worker, logger } = await loadGraphile(nearDatabaseUrl);
  const publisher = publisherTo(queueUrl);
  const counter = new Counter();
  const outbox = async (payload: object) => {
    counter.begin();
    await publisher.one(bodyOf(JSON.stringify(payload)));
    counter.add(1);
  };
  let runner: { stop(): Promise<void> } | undefined;
  return {
    prepare: async (count) => {
      const client = new Client(nearDatabaseUrl);
      await client.connect();
      await client.query(ADD_JOBS, [count]);
      await client.query('VACUUM ANALYZE');
      await client.query('CHECKPOINT');
      await client.end();
    },
    drain: (count, capMs) =>
      counter.during(
        count,
        capMs,
        async () => {
          runner = await worker.run({
            preset: {
              worker: { connectionString: databaseUrl, ...options, gracefulShutdownAbortTimeout: 1_000 },
            },
            logger,
            noHandleSignals: true,
            taskList: { outbox },
          });
        },
        async () => runner?.stop(),
      ),
  };
};
