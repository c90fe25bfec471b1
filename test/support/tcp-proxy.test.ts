import { describe, expect, test } from 'vitest';
import { createDatabase, createPrisma, openSession } from './database.ts';
import { sessions } from './knobs.ts';
import { startTcpProxy } from './tcp-proxy.ts';
import { DeadlineError, soon, until } from './wait.ts';

const insert = "INSERT INTO orders VALUES ('1', 'sku', 1)";
const start = async () => {
  const db = await createDatabase();
  const proxy = await startTcpProxy(db.url);
  return { db, proxy, session: await openSession(proxy.url), rows: () => db.sql('SELECT id FROM orders') };
};
const isStill = (promise: Promise<unknown>): Promise<void> =>
  expect(soon(promise, { within: 100 })).rejects.toThrow(DeadlineError);

describe('TCP proxy', () => {
  test('holds a statement, and its release', async () => {
    const { proxy, session, rows } = await start();
    const rule = proxy.once(/^INSERT/, 'hold');
    const inserted = session.query(insert);
    await rule.reached;
    await isStill(inserted);
    expect(await rows()).toEqual([]);
    rule.release();
    await inserted;
    expect(await rows()).toHaveLength(1);
  });

  test('holds the answer to BEGIN of a Prisma transaction longer than maxWait', async () => {
    const { proxy, db } = await start();
    const prisma = createPrisma(proxy.url, { max: 1 });
    const rule = proxy.once(/^BEGIN/, 'holdAnswer');
    const transaction = prisma.$transaction((tx) => tx.order.count(), { maxWait: 100 });
    await expect(transaction).rejects.toMatchObject({ code: 'P2028' });
    await rule.reached;
    rule.release();
    await until(async () => (await sessions(db)).every(({ state }) => state === 'idle'));
  });

  test('cuts before COMMIT reached the server', async () => {
    const { proxy, session, rows } = await start();
    await session.query('BEGIN');
    await session.query(insert);
    proxy.once((sql) => sql === 'COMMIT', 'cut');
    await expect(session.query('COMMIT')).rejects.toThrow();
    expect(await rows()).toEqual([]);
  });

  test('cuts after COMMIT has happened', async () => {
    const { proxy, session, rows } = await start();
    await session.query('BEGIN');
    await session.query(insert);
    const rule = proxy.once(/^COMMIT/, 'cutAnswer');
    await expect(session.query('COMMIT')).rejects.toThrow();
    await rule.reached;
    expect(await rows()).toHaveLength(1);
  });

  test('cuts the answer to an autocommitted statement with parameters', async () => {
    const { proxy, session, rows } = await start();
    proxy.once(/orders/, 'cutAnswer');
    await expect(session.query('INSERT INTO orders VALUES ($1, $2, $3)', ['1', 'sku', 1])).rejects.toThrow();
    expect(await rows()).toHaveLength(1);
  });

  test('stalls and resumes everything, new connections too', async () => {
    const { proxy, session } = await start();
    proxy.stall();
    const answers = [session.query('SELECT 1'), openSession(proxy.url)];
    await Promise.all(answers.map(isStill));
    proxy.resume();
    await Promise.all(answers);
    expect(proxy.connections()).toBe(2);
  });

  test('ends idle connections and leaves those in a transaction', async () => {
    const { proxy, session } = await start();
    const busy = await openSession(proxy.url);
    await busy.query('BEGIN');
    expect(proxy.closeIdle()).toBe(1);
    await expect(session.query('SELECT 1')).rejects.toThrow();
    await busy.query('COMMIT');
    expect(proxy.cut()).toBe(1);
    expect(proxy.connections()).toBe(0);
  });

  test('refuses, like a server that is down, and takes again', async () => {
    const { proxy } = await start();
    proxy.refuse(true);
    await expect(openSession(proxy.url)).rejects.toThrow();
    proxy.refuse(false);
    await openSession(proxy.url);
  });

  test('passes megabytes in both directions unchanged', async () => {
    const { session } = await start();
    const text = 'é'.repeat(5_000_000);
    const { rows } = await session.query('SELECT md5($1) = md5($2) AS same, $1 AS text', [text, text]);
    expect(rows[0].same).toBe(true);
    expect(rows[0].text === text).toBe(true);
  });
});
