// pg-transactional-outbox: a handler per message, in a transaction of its own; ten, or those of 2 ms, share a call.

import { randomUUID } from 'node:crypto';
import { Client } from 'pg';
import { loadPeer } from '../harness/peers.ts';
import { bodyOf, Counter, PAYLOAD_SQL, type MakeContender } from './contender.ts';
import { publisherTo } from './publisher.ts';

type Listener = (
  config: object,
  handler: object,
  logger: unknown,
  strategies?: object,
) => [() => Promise<void>];

interface Library {
  DatabaseSetup: Record<
    'dropAndCreateTable' | 'setupReplicationCore' | 'createPollingFunction' | 'setupPollingIndexes',
    (config: object) => string
  >;
  getDisabledLogger(): unknown;
  initializePollingMessageListener: Listener;
  initializeReplicationMessageListener: Listener;
  createReplicationSemaphoreConcurrencyController(concurrency: number): unknown;
}

const INSERT = `
INSERT INTO public.outbox (id, aggregate_type, aggregate_id, message_type, concurrency, payload)
SELECT gen_random_uuid(), 'order', n::text, 'order.placed', 'parallel', ${PAYLOAD_SQL}::jsonb
FROM generate_series(1, $1::int) AS n`;

export const outboxLibraryContender: MakeContender = async ({ databaseUrl, queueUrl, options }) => {
  const library = await loadPeer<Library>('pg-transactional-outbox');
  const setup = {
    outboxOrInbox: 'outbox',
    database: new URL(databaseUrl).pathname.slice(1),
    schema: 'public',
    table: 'outbox',
    listenerRole: 'outbox',
    publication: 'bench',
    replicationSlot: `bench_${randomUUID().replaceAll('-', '')}`,
    nextMessagesName: 'next_outbox_messages',
  };
  const { DatabaseSetup } = library;
  const sql = async (text: string, ...values: unknown[]) => {
    const client = new Client(databaseUrl);
    await client.connect();
    await client.query(text, values.length > 0 ? values : undefined);
    await client.end();
  };
  await sql(DatabaseSetup.dropAndCreateTable(setup));
  if (options['listener'] === 'replication') {
    await sql(DatabaseSetup.setupReplicationCore(setup));
    await sql(`SELECT pg_create_logical_replication_slot('${setup.replicationSlot}', 'pgoutput')`);
  } else {
    await sql(DatabaseSetup.createPollingFunction(setup));
    await sql(DatabaseSetup.setupPollingIndexes(setup));
  }
  const publisher = publisherTo(queueUrl);
  const counter = new Counter();
  const handler = {
    handle: async ({ payload }: { payload: unknown }) => {
      counter.begin();
      await publisher.one(bodyOf(JSON.stringify(payload)));
      counter.add(1);
    },
  };
  const listen = () => {
    const settings = {
      dbSchema: 'public',
      dbTable: 'outbox',
      enableMaxAttemptsProtection: false,
      enablePoisonousMessageProtection: false,
      nextMessagesFunctionName: setup.nextMessagesName,
      dbPublication: setup.publication,
      dbReplicationSlot: setup.replicationSlot,
      ...(options['settings'] as object | undefined),
    };
    const pool = { connectionString: databaseUrl, max: 20 };
    const config = { outboxOrInbox: 'outbox', dbListenerConfig: pool, dbHandlerConfig: pool, settings };
    const logger = library.getDisabledLogger();
    if (options['listener'] !== 'replication') {
      return library.initializePollingMessageListener(config, handler, logger, {
        ...(options['batch'] !== undefined && { batchSizeStrategy: async () => options['batch'] }),
      });
    }
    return library.initializeReplicationMessageListener(config, handler, logger, {
      concurrencyStrategy: library.createReplicationSemaphoreConcurrencyController(20),
    });
  };
  let stop: (() => Promise<void>) | undefined;
  return {
    prepare: (count) => sql(INSERT, count),
    drain: (count, capMs) =>
      counter.during(
        count,
        capMs,
        async () => void ([stop] = listen()),
        async () => {
          // It may wait for what it cannot finish.
          await Promise.race([stop?.(), new Promise((resolve) => void setTimeout(resolve, 3_000))]);
        },
      ),
  };
};
