import { SQSClient } from '@aws-sdk/client-sqs';
import { expect, test } from 'vitest';
import { nudger } from '../functions/outbox/nudge.ts';
import { accessDenied, startScriptedSqs } from './support/scripted-sqs.ts';

async function startNudging(pauseMs?: number) {
  const sqs = await startScriptedSqs({ queues: { ticks: {} } });
  const lost: unknown[] = [];
  const nudge = nudger({
    sqs: sqs.client(),
    tickQueueUrl: sqs.queueUrl('ticks'),
    ...(pauseMs !== undefined && { pauseMs }),
    report: (name, fields) => void lost.push({ name, ...fields }),
  });
  return { sqs, nudge, lost };
}

test('a hundred commits at once are two nudges: the one under way, and one that was sent after all of them', async () => {
  const { sqs, nudge } = await startNudging();
  sqs.latencyMs = 20;
  const first = nudge();
  // The first is on its way by now; whatever commits from here on may come too late for it.
  await Promise.resolve();
  await Promise.all([first, ...Array.from({ length: 99 }, nudge)]);
  expect(sqs.sends()).toHaveLength(2);
});

test('one that comes after an answer is sent of its own', async () => {
  const { sqs, nudge } = await startNudging();
  await nudge();
  await nudge();
  expect(sqs.sends()).toHaveLength(2);
});

test('resolves only once a nudge is answered that was sent after the call', async () => {
  const { sqs, nudge } = await startNudging();
  sqs.latencyMs = 20;
  const first = nudge();
  await Promise.resolve();
  const second = nudge();
  await first;
  expect(sqs.sends()).toHaveLength(1);
  await second;
  expect(sqs.sends()).toHaveLength(2);
});

test('leaves a pause after an answer, and none before the first', async () => {
  const { sqs, nudge } = await startNudging(200);
  const began = performance.now();
  await nudge();
  const afterFirst = performance.now() - began;
  await nudge();
  // Node's timers may fire a millisecond early.
  expect(performance.now() - began - afterFirst).toBeGreaterThanOrEqual(199);
  expect(sqs.sends()).toHaveLength(2);
});

test('a refused nudge is told, harms nobody, and holds up no later one', async () => {
  const { sqs, nudge, lost } = await startNudging();
  sqs.next(accessDenied());
  await nudge();
  await nudge();
  expect(lost).toEqual([{ name: 'nudge.lost', error: expect.stringContaining('AccessDenied') }]);
  expect(sqs.stored('ticks')).toHaveLength(1);
});

test('credentials that never come give the nudge up, and hold up no later one', async () => {
  const { sqs, lost } = await startNudging();
  let asked = 0;
  const never = new SQSClient({
    endpoint: sqs.endpoint,
    region: 'us-east-1',
    credentials: () => ((asked += 1), new Promise<never>(() => {})),
  });
  const report = (name: string, fields: object) => void lost.push({ name, ...fields });
  const nudge = nudger({ sqs: never, tickQueueUrl: sqs.queueUrl('ticks'), report });
  await Promise.all([nudge(), Promise.resolve().then(nudge)]);
  const given = { name: 'nudge.lost', error: expect.stringContaining('OutOfTime') };
  expect(lost).toEqual([given, given]);
  expect(asked).toBeGreaterThan(0);
});

const throws = () => {
  throw new Error('no room for a line');
};

test('a report that throws holds up no later nudge', async () => {
  const { sqs } = await startNudging();
  const nudge = nudger({
    sqs: sqs.client(),
    tickQueueUrl: sqs.queueUrl('ticks'),
    pauseMs: 1,
    report: throws,
  });
  sqs.next(accessDenied());
  await expect(nudge()).rejects.toThrow('no room');
  await nudge();
  expect(sqs.stored('ticks')).toHaveLength(1);
});

test.each([undefined, '', 'ticks', 'arn:aws:sqs:eu-central-1:1:ticks', 'localhost:9324/ticks'])(
  'a tick queue of %j is refused at once, not at the first commit',
  (url) => {
    const make = () => nudger({ sqs: new SQSClient({}), tickQueueUrl: url as string });
    expect(make).toThrow(/^nudger: tickQueueUrl: expected a queue's URL/);
  },
);
