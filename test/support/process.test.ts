import { describe, expect, test } from 'vitest';
import { createDatabase } from './database.ts';
import { insertEvents } from './factories.ts';
import { startProcess, type TestProcess } from './process.ts';
import { DeadlineError, until } from './wait.ts';

const echo = new URL('./programs/echo.ts', import.meta.url);
const isAnswer = (message: unknown): message is Record<string, unknown> =>
  typeof message === 'object' && message !== null && 'echo' in message;
const ask = (child: TestProcess, value: bigint): Promise<Record<string, unknown>> => {
  child.send({ value });
  return child.message((answer) => isAnswer(answer) && answer['echo'] === value) as Promise<
    Record<string, unknown>
  >;
};

describe('processes', () => {
  test('a TypeScript file runs on our Node with its own environment, database and time zone', async () => {
    const db = await createDatabase();
    await insertEvents(db, 3);
    const child = startProcess(echo, { env: { TZ: 'Asia/Kolkata', DATABASE_URL: db.url } });
    expect(await ask(child, 7n)).toMatchObject({ echo: 7n, node: process.version, hours: 5, events: 3 });
    expect(child.output()).toContain('started\n');
    expect(await child.kill()).toEqual({ code: null, signal: 'SIGKILL' });
  });

  test('its clock can run ahead', async () => {
    const child = startProcess(echo, { clockAheadMs: 600_000, env: { DATABASE_URL: undefined } });
    const { now, sameDay } = await ask(child, 1n);
    expect(Number(now) - Date.now()).toBeGreaterThan(590_000);
    expect(sameDay).toBe(true);
  });

  test('frozen it answers nothing, thawed it goes on', async () => {
    const child = startProcess(echo, { env: { DATABASE_URL: undefined } });
    await ask(child, 1n);
    child.freeze();
    child.send({ value: 2n });
    const answered = (): boolean =>
      child.messages.some((message) => isAnswer(message) && message['echo'] === 2n);
    await expect(until(answered, { within: 200 })).rejects.toThrow(DeadlineError);
    child.thaw();
    await until(answered);
  });

  test('one that ends without the message shows its output', async () => {
    const child = startProcess(new URL('./programs/missing.ts', import.meta.url));
    await expect(child.message(isAnswer)).rejects.toThrow(/ended without the message[^]*Cannot find module/);
    expect(await child.exited).toEqual({ code: 1, signal: null });
  });
});
