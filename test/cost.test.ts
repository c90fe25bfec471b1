// docs/cost.md is what the script prints, and its sums keep the promise.

import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { idleGauge, idleRelay, millionEvents } from '../infra/cost/count.ts';
import { costDocument, total, totalAfterFree } from '../infra/cost/document.ts';
import { packaged } from './support/packaged.ts';

const { template } = await packaged();

test('the document is what `npm run cost` prints', async () => {
  expect(await readFile('docs/cost.md', 'utf8')).toBe(await costDocument(template));
});

test('an idle relay costs under a dollar a month, without the database', () => {
  expect(total(idleRelay(template))).toBeLessThan(1);
  expect(totalAfterFree(idleRelay(template))).toBeLessThan(0.25);
});

test('a month has six ticks for each of its minutes, and one gauge', () => {
  const minutes = 730 * 60;
  const runs = (name: string, lines = idleRelay(template)) =>
    lines.find(({ what }) => what === `${name}: runs`)?.count;
  expect(runs('relay')).toBe(6 * minutes);
  expect(runs('prune')).toBe(minutes / 60);
  expect(runs('gauge', idleGauge(template))).toBe(minutes);
});

test('what the template says is counted: a slower schedule, more memory, a schedule switched off', () => {
  const changed = structuredClone(template);
  const set = (id: string, property: string, value: unknown) => {
    const properties = changed.Resources[id]?.Properties;
    if (!properties) throw new Error(`no ${id}`);
    properties[property] = value;
  };
  const count = (what: string, lines = idleRelay(changed)) => lines.find((line) => line.what === what)?.count;
  set('TickSchedule', 'ScheduleExpression', 'rate(1 hour)');
  set('StockLambdaFunction', 'MemorySize', 2_048);
  set('GaugeEventsRuleSchedule1', 'State', 'DISABLED');
  expect(count('relay: runs')).toBe(6 * 730);
  expect(count('stock: time', millionEvents(changed))).toBe(
    4 * (count('stock: time', millionEvents(template)) ?? NaN),
  );
  expect(total(idleGauge(changed))).toBe(0);
  set('TickSchedule', 'ScheduleExpression', 'cron(0 0 * * ? *)');
  expect(() => idleRelay(changed)).toThrow('cannot count cron(0 0 * * ? *)');
});
