// The built zips under AWS's own runtime client: what is uploaded is what answers here.

import { CreateQueueCommand } from '@aws-sdk/client-sqs';
import type { SQSEvent, SQSRecord } from 'aws-lambda';
import { createServer, type AddressInfo } from 'node:net';
import { beforeAll, expect, test } from 'vitest';
import { startQueueServer } from '../infra/local/fauxqs.ts';
import { localSqs } from '../infra/local/queue.ts';
import { ACCOUNT, REGION } from '../infra/local/template.ts';
import { afterwards } from './support/cleanup.ts';
import { orderRecord, receiveRecords } from './support/consumer.ts';
import { createDatabase, type TestDatabase } from './support/database.ts';
import { insertEvents } from './support/factories.ts';
import { packaged, PACKAGING_TIMEOUT_MS } from './support/packaged.ts';
import { startRealSandbox, type RealSandbox } from './support/runtime-api.ts';
import { withTool } from './support/tools.ts';
import { unpackFunction } from './support/unpacked.ts';
import { until } from './support/wait.ts';

let db: TestDatabase;
let endpoint: string;
const queueUrl = (queue: string) => `${endpoint}/${ACCOUNT}/${queue}`;

beforeAll(async () => {
  await packaged();
  db = await createDatabase();
  await db.sql("INSERT INTO stock_balance VALUES ('SKU-17', 10), ('SKU-18', 0)");
  const server = await startQueueServer({ region: REGION });
  afterwards(server.stop);
  ({ endpoint } = server);
  for (const QueueName of ['stock', 'dead']) await client().send(new CreateQueueCommand({ QueueName }));
}, PACKAGING_TIMEOUT_MS);

function client() {
  const sqs = localSqs(endpoint);
  afterwards(() => sqs.destroy());
  return sqs;
}

/** What the template gives each function. */
const variablesOf = (name: string): Record<string, string> => ({
  DATABASE_URL: db.url,
  AWS_ENDPOINT_URL_SQS: endpoint,
  AWS_ACCESS_KEY_ID: 'test',
  AWS_SECRET_ACCESS_KEY: 'test',
  ...(name === 'relay'
    ? { OUTBOX_DESTINATIONS: JSON.stringify({ stock: { kind: 'sqs', queueUrl: queueUrl('stock') } }) }
    : { OUTBOX_QUEUE_URL: queueUrl('stock'), OUTBOX_DEAD_LETTER_QUEUE_URL: queueUrl('dead') }),
});

/** A cold start of the packaged function, with variables that differ. */
async function deploy(
  name: string,
  environment: Record<string, string> = {},
  timeoutMs?: number,
): Promise<RealSandbox> {
  return startRealSandbox({
    folder: await unpackFunction(name),
    handler: `functions/${name}/handler.handler`,
    environment: { ...variablesOf(name), ...environment },
    ...(timeoutMs !== undefined && { timeoutMs }),
  });
}

const tick = { Records: [{ messageId: 'tick', body: '{"tick":"schedule"}' }] };
const batch = (...Records: SQSRecord[]): SQSEvent => ({ Records });
const order = (orderId: string, sku = 'SKU-17') => ({ orderId, sku, quantity: 2 });
const availableOf = async (sku: string) =>
  (await db.sql<{ available: number }>('SELECT available FROM stock_balance WHERE sku = $1', [sku]))[0]
    ?.available;

await withTool('runtime', () => {
  test('an event goes its whole way: claimed, published, acknowledged, applied', async () => {
    const [event] = await insertEvents(db, 1, { type: 'order.placed', payload: order('ORDER-1') });
    const [relay, stock] = await Promise.all([deploy('relay'), deploy('stock')]);
    expect(await relay.invoke(tick)).toMatchObject({ claimed: 1, published: 1, acknowledged: 1 });
    expect(await db.sql('SELECT state, attempts FROM outbox_event')).toEqual([
      { state: 'PUBLISHED', attempts: 1 },
    ]);
    const records = await receiveRecords({ client, queueUrl });
    expect(records).toHaveLength(1);
    expect(await stock.invoke(batch(...records))).toEqual({ batchItemFailures: [] });
    expect(await availableOf('SKU-17')).toBe(8);
    // The same sandbox again, warm: the message came twice, the effect happens once.
    expect(await stock.invoke(batch(...records))).toEqual({ batchItemFailures: [] });
    expect(await availableOf('SKU-17')).toBe(8);
    expect(await db.sql('SELECT event_id, consumer FROM applied_event')).toEqual([
      { event_id: event?.eventId, consumer: 'stock' },
    ]);
    expect(await relay.invoke(tick)).toMatchObject({ claimed: 0 });
  });

  test('of a batch, only the record that failed is named', async () => {
    const stock = await deploy('stock', { OUTBOX_DEAD_LETTER_QUEUE_URL: queueUrl('gone') });
    const good = orderRecord({ data: order('ORDER-2') });
    // A shortage is terminal, and its dead-letter queue is not there: it must come back.
    const bad = orderRecord({ data: order('ORDER-3', 'SKU-18') });
    const before = await availableOf('SKU-17');
    expect(await stock.invoke(batch(good, bad))).toEqual({
      batchItemFailures: [{ itemIdentifier: bad.messageId }],
    });
    expect(await availableOf('SKU-17')).toBe(Number(before) - 2);
  });

  test('what is thrown is posted with its type and message, and the sandbox lives on', async () => {
    const stock = await deploy('stock');
    await expect(stock.invoke({ not: 'from SQS' })).rejects.toMatchObject({
      fault: { errorType: 'TypeError', errorMessage: expect.stringContaining('expected an SQS event') },
    });
    const record = orderRecord({ data: order('ORDER-4') });
    expect(await stock.invoke(batch(record))).toEqual({ batchItemFailures: [] });
  });

  test.each([
    ['relay', { OUTBOX_LEASE_SECONDS: '20' }, /OUTBOX_LEASE_SECONDS: 20 .*OUTBOX_FUNCTION_TIMEOUT_SECONDS/],
    ['stock', { DATABASE_URL: 'mysql://root:s3cret@db/shop' }, /DATABASE_URL: expected a postgresql:/],
    ['prune', { OUTBOX_LEDGER_RETENTION_DAYS: '1' }, /OUTBOX_LEDGER_RETENTION_DAYS: 1 is below 35/],
  ])('%s does not start with %o, and says which setting is wrong', async (name, environment, message) => {
    const unset: Record<string, string> = name === 'prune' ? { OUTBOX_QUEUE_URL: '' } : {};
    const sandbox = await deploy(name, { ...environment, ...unset });
    const fault = await sandbox.initError;
    expect(fault.errorType).toBe('ConfigurationError');
    expect(fault.errorMessage).toMatch(message);
    expect(fault.errorMessage + sandbox.log()).not.toContain('s3cret');
  });

  test('a function that is killed at its timeout left nothing half done: the next one goes on', async () => {
    const [event] = await insertEvents(db, 1, { type: 'order.placed', payload: order('ORDER-5') });
    const state = () =>
      db.sql('SELECT state, attempts FROM outbox_event WHERE event_id = $1', [event?.eventId]);
    // A queue that takes the connection and never answers.
    const silent = createServer().listen(0, '127.0.0.1');
    afterwards(() => silent.close());
    silent.on('connection', (socket) => afterwards(() => socket.destroy()));
    await until(() => silent.listening);
    const stalled = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    const relay = await deploy(
      'relay',
      {
        AWS_ENDPOINT_URL_SQS: stalled,
        OUTBOX_DESTINATIONS: JSON.stringify({
          stock: { kind: 'sqs', queueUrl: `${stalled}/${ACCOUNT}/stock` },
        }),
      },
      4_000,
    );
    const answer = relay.invoke(tick);
    const timedOut = expect(answer).rejects.toThrow('timed out after 4000 ms');
    // The relay itself would give up in time, so it stands still once it holds the event.
    await until(async () => (await state())[0]?.['attempts'] === 1);
    relay.child.kill('SIGSTOP');
    await timedOut;
    expect(await state()).toEqual([{ state: 'PENDING', attempts: 1 }]);
    await db.sql('UPDATE outbox_event SET lease_until = now() WHERE claim_token IS NOT NULL');
    expect(await (await deploy('relay')).invoke(tick)).toMatchObject({ published: 1 });
    expect(await state()).toEqual([{ state: 'PUBLISHED', attempts: 2 }]);
  });
});
