// Everything but migrations through PgBouncer in transaction mode, as with RDS Proxy: each transaction may be on another
// session. Debian's PgBouncer is older than its support for prepared statements, as if max_prepared_statements were 0;
// and it refuses a start-up parameter that it does not know.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect as connectSocket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { orderEvents } from '../functions/events/order.ts';
import { recorder } from '../functions/outbox/record.ts';
import { pruneLedger, pruneOutbox } from '../functions/prune/prune.ts';
import { tick } from '../functions/relay/tick.ts';
import { connect } from '../functions/shared/database.ts';
import { countdown } from '../functions/shared/deadline.ts';
import { storeOf } from '../functions/shared/store.ts';
import { freePort } from '../infra/local/postgres.ts';
import { librariesOf } from '../infra/runtime/debian.ts';
import { placeOf, programOf } from '../infra/runtime/places.ts';
import type { PrismaClient } from '../prisma/client/client.ts';
import { afterwards } from './support/cleanup.ts';
import {
  captureReports,
  createConsumerDatabase,
  ledgerAndEffects,
  receiveRecords,
  startConsumer,
} from './support/consumer.ts';
import type { TestDatabase } from './support/database.ts';
import { relayParts } from './support/relay.ts';
import { startScriptedSqs } from './support/scripted-sqs.ts';
import { withTool } from './support/tools.ts';
import { until } from './support/wait.ts';

const SERVER_SESSIONS = 3;
const EVENTS = 120;
const FIFO_KEYS = 4;

/** PgBouncer before the database, with fewer sessions than its clients want. @returns the way through it. */
async function startPgBouncer(db: TestDatabase): Promise<string> {
  const { hostname, port, username, password, pathname } = new URL(db.url);
  const folder = await mkdtemp(path.join(tmpdir(), 'outbox-pgbouncer-'));
  await chmod(folder, 0o755);
  const own = await freePort();
  const file = path.join(folder, 'pgbouncer.ini');
  const to = `host=${hostname} port=${port || 5432} user=${username} password=${password}`;
  await writeFile(
    file,
    `[databases]
${pathname.slice(1)} = ${to}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${own}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = ${SERVER_SESSIONS}
max_client_conn = 100
`,
  );
  // It refuses to run as root, and root's cache is closed to others: it is started by root and then steps down.
  const identity = process.getuid?.() === 0 ? ['-u', 'nobody'] : [];
  const child = spawn(await programOf('pgbouncer'), [...identity, file], {
    cwd: folder,
    env: { LD_LIBRARY_PATH: librariesOf(await placeOf('pgbouncer')) },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let log = '';
  child.stderr.on('data', (text) => (log += String(text)));
  const ended = once(child, 'exit');
  afterwards(async () => {
    child.kill('SIGKILL');
    await ended;
    await rm(folder, { recursive: true });
  });
  await until(
    () => {
      if (child.exitCode !== null) throw new Error(log);
      return answers(own);
    },
    { message: 'PgBouncer listens' },
  );
  const url = new URL(db.url);
  url.host = `127.0.0.1:${own}`;
  return url.href;
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connectSocket(port, '127.0.0.1', () => {
      socket.destroy();
      resolve(true);
    }).on('error', () => resolve(false));
  });
}

await withTool('pgbouncer', () => {
  test('record, relay, apply and prune share three sessions, and nothing is lost or doubled', async () => {
    const db = await createConsumerDatabase();
    const databaseUrl = await startPgBouncer(db);
    const client = (): PrismaClient => {
      const prisma = connect({ databaseUrl, poolSize: 5 });
      afterwards(() => prisma.$disconnect());
      return prisma;
    };
    const sqs = await startScriptedSqs({ queues: { stock: {}, dead: {}, 'history.fifo': {} } });
    const recordEvents = recorder(orderEvents, {
      source: '/orders',
      destinations: ['stock', 'history'],
    });
    const producer = client();
    await Promise.all(
      Array.from({ length: EVENTS }, (_, index) => {
        const payload = { orderId: `ORDER-${index}`, sku: 'SKU-17', quantity: 1 };
        const placed = { type: 'order.placed', payload } as const;
        const ordered = {
          ...placed,
          destinations: ['history'],
          orderingKey: `key-${index % FIFO_KEYS}`,
        };
        return producer.$transaction(
          (tx) => recordEvents(tx, [{ ...placed, destinations: ['stock'] }, ordered]),
          {
            maxWait: 20_000,
            timeout: 20_000,
          },
        );
      }),
    );

    const { destinations } = relayParts(producer, sqs, {}).config;
    const stock = destinations['stock'];
    if (!stock) throw new Error('no destination stock');
    const both = {
      stock,
      history: { ...stock, kind: 'sqs' as const, queueUrl: sqs.queueUrl('history.fifo') },
    };
    const relays = Array.from({ length: 3 }, () => relayParts(client(), sqs, { destinations: both }));
    const pending = async () =>
      (await db.sql<{ n: number }>("SELECT count(*) AS n FROM outbox_event WHERE state <> 'PUBLISHED'"))[0]
        ?.n;
    await until(
      async () => {
        await Promise.all(relays.map((relay) => tick(relay, countdown(5_000))));
        return (await pending()) === 0;
      },
      { within: 20_000, message: 'all is published' },
    );

    captureReports();
    const consumer = startConsumer({ db: { url: databaseUrl }, queues: sqs, prisma: client() });
    for (let records = await receiveRecords(sqs); records.length > 0; records = await receiveRecords(sqs)) {
      // Each batch is delivered twice, at the same time.
      const kept = await Promise.all([consumer.deliver(records), consumer.deliver(records)]);
      expect(kept.flat()).toEqual([]);
    }
    const applied = await ledgerAndEffects(db);
    expect(applied).toHaveLength(EVENTS);
    expect(applied.filter(({ ledger, effects }) => ledger !== 1 || effects !== 1)).toEqual([]);

    const [sessions] = await db.sql(
      "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND application_name NOT LIKE 'outbox-test-onlooker%'",
    );
    expect(Number(sessions?.['n'])).toBeLessThanOrEqual(SERVER_SESSIONS);
    const store = storeOf(client());
    await db.sql(
      "UPDATE outbox_event SET published_at = now() - interval '2 hours', recorded_at = now() - interval '3 hours'",
    );
    await db.sql("UPDATE applied_event SET applied_at = now() - interval '2 days'");
    expect(await pruneOutbox(store, 1, countdown(10_000))).toBe(2 * EVENTS);
    expect(await pruneLedger(store, 1, countdown(10_000))).toBe(EVENTS);
  });
});
