// The demo's input: it is what its script makes, and it holds what the demo is meant to meet.

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { DEFAULTS, generate, linesOf, textOf, type Order } from './data/generate.ts';

const text = await readFile(join(import.meta.dirname, 'data', 'orders.jsonl'), 'utf8');
const lines = linesOf(text);
const orders = lines.flatMap((line) => ('order' in line ? [line.order] : []));

const demandFor = (sku: string, all: Order[]) =>
  [...new Map(all.map((order) => [order.orderId, order])).values()]
    .filter((order) => order.sku === sku)
    .reduce((sum, { quantity }) => sum + quantity, 0);

test('the committed file is what its script makes, byte for byte', () => {
  expect(text === textOf(generate(DEFAULTS))).toBe(true);
});

const made = (seed: number) => textOf(generate({ orders: 50, seed }));

test('the same seed gives the same lines, another seed other ones', () => {
  expect(made(1)).toBe(made(1));
  expect(made(1)).not.toBe(made(2));
});

test('there are two thousand different orders, some posted twice and never differently', () => {
  const byId = Map.groupBy(orders, ({ orderId }) => orderId);
  expect(byId.size).toBeGreaterThanOrEqual(2_000);
  const repeated = [...byId.values()].filter((same) => same.length > 1);
  expect(repeated.length).toBeGreaterThan(30);
  for (const same of repeated) expect(new Set(same.map((order) => JSON.stringify(order))).size).toBe(1);
});

test('notes hold emoji, noncharacters, control characters and line separators', () => {
  const notes = orders.map(({ note = '' }) => note).join('');
  for (const character of ['😀', '👨‍👩‍👧‍👦', '𝄞', '\uFFFE', '\uFFFF', '\u0007', '\u2028', '日'])
    expect(notes).toContain(character);
});

test('one SKU is ordered before it exists, and one is ordered more than there is', () => {
  const late = lines.findIndex((line) => 'stock' in line && line.late);
  const [stock] = lines.slice(late, late + 1).flatMap((line) => ('stock' in line ? [line.stock] : []));
  expect(lines.slice(0, late).some((line) => 'order' in line && line.order.sku === stock?.sku)).toBe(true);
  const scarce = lines
    .flatMap((line) => ('stock' in line ? [line.stock] : []))
    .filter(({ sku, available }) => demandFor(sku, orders) > available);
  expect(scarce.map(({ sku }) => sku)).toEqual(['SKU-SCARCE']);
});

test('SKU-17 is ordered once, two of ten, and the order is posted more than once', () => {
  expect(demandFor('SKU-17', orders)).toBe(2);
  expect(orders.filter(({ sku }) => sku === 'SKU-17').length).toBeGreaterThan(1);
});

test('a fourth of the orders is paid, some twice, and half of those are shipped, each step after the one before', () => {
  const stepsOf = Map.groupBy(
    lines.flatMap((line, at) => ('step' in line ? [{ at, ...line }] : [])),
    ({ orderId }) => orderId,
  );
  const having = (least: number, step: string) =>
    [...stepsOf.values()].filter((own) => own.filter((one) => one.step === step).length >= least).length;
  const placed = new Set(orders.map(({ orderId }) => orderId)).size;
  expect(having(1, 'paid') / placed).toBeCloseTo(0.25, 1);
  expect(having(2, 'paid')).toBeGreaterThan(10);
  expect(having(1, 'shipped') / having(1, 'paid')).toBeCloseTo(0.5, 1);
  for (const [orderId, own] of stepsOf) {
    const at = (step: string) => own.find((one) => one.step === step)?.at ?? Infinity;
    expect(lines.findIndex((line) => 'order' in line && line.order.orderId === orderId)).toBeLessThan(
      at('paid'),
    );
    expect(at('paid')).toBeLessThan(at('shipped'));
  }
});

test('there are bursts: a hundred orders and more without a pause', () => {
  let longest = 0;
  let run = 0;
  for (const { afterMs } of lines) {
    run = afterMs === 0 ? run + 1 : 0;
    longest = Math.max(longest, run);
  }
  expect(longest).toBeGreaterThan(100);
});

test.each([10, 37, 400])('%i orders are as many, whatever the shares come to', (count) => {
  const timeline = generate({ orders: count, seed: 5 });
  const ids = new Set(timeline.flatMap((line) => ('order' in line ? [line.order.orderId] : [])));
  expect(ids.size).toBe(count);
  expect(timeline.filter((line) => 'stock' in line && line.late).length).toBe(1);
});
