// Makes the demo's input, test/data/orders.jsonl: `npm exec -c 'node test/data/generate.ts'`.
// The same seed gives the same bytes; test/local-data.test.ts holds the file to this script.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

/** An order as it is posted. */
export interface Order {
  orderId: string;
  sku: string;
  quantity: number;
  note?: string;
}

/** Stock of a SKU that was not there before. */
export interface Stock {
  sku: string;
  available: number;
}

/** What happens to an order after it was placed. */
export type Step = 'paid' | 'shipped';

/** An order is paid or shipped. */
export interface OrderStep {
  orderId: string;
  step: Step;
}

/**
 * One line of the file: after a pause an order is posted, one is paid or shipped (once the post that must come before
 * has been answered), or stock arrives. `late` stock arrives once an order for it has been tried in vain.
 */
export type Line = { afterMs: number } & ({ order: Order } | OrderStep | { stock: Stock; late?: true });

/** What the committed file was made with. */
export const DEFAULTS = { orders: 2_000, seed: 17 };

const PLENTIFUL = Array.from({ length: 16 }, (_, index) => `SKU-${index + 1}`);
/** Ten pieces, one order of two, posted and delivered more than once: 8 must be left. */
const STORY = { sku: 'SKU-17', available: 10, orderId: 'order-23', quantity: 2 };
/** Orders of two for about 60 % of what is asked: the rest is a shortage, and how many is known beforehand. */
const SCARCE = { sku: 'SKU-SCARCE', quantity: 2, share: 0.03, covered: 0.6 };
/** Ordered before it exists. */
const LATE = { sku: 'SKU-LATE', share: 0.02, from: 0.2 };
const REPEATED_SHARE = 0.03;
const BURSTS = { count: 5, share: 0.08 };
/** A step comes within so many lines after the one before it, often while that one is still on its way. */
const STEPS = { paid: 0.25, paidAgain: 0.05, shippedOfPaid: 0.5, within: 40 };
/** The whole feed lasts this long at most. */
const MOST_MS = 36_000;
const PACE_MS = 18;

const NOTES = [
  'Grüße aus Zürich – bitte klingeln',
  '日本語の注文、急ぎません',
  'مرحبا بالعالم',
  'emoji 😀, family 👨‍👩‍👧‍👦, flag 🏳️‍🌈, clef 𝄞',
  'noncharacters \uFFFE and \uFFFF, separators \u2028 and \u2029',
  'controls \u0007 \u001F \u007F \u0085, tab\tand\nline end',
  'quotes " \' ` and back\\slash, ${not} a {{template}}',
  'e\u0301 is not é, \uFEFF marks no order of bytes, \uE000 is private',
  `${'long '.repeat(390)}end`,
  '',
];

/** A small seeded generator of numbers in [0, 1) (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/**
 * A timeline of `orders` different orders (10 or more), some posted twice, some paid and shipped, and of the stock they
 * take from: the opening balances first, the late one after its orders.
 */
export function generate({ orders, seed }: { orders: number; seed: number }): Line[] {
  const random = randomFrom(seed);
  const scarce = Math.max(2, Math.round(orders * SCARCE.share));
  const placed = makeOrders(orders, scarce, random);
  const opening = [
    ...PLENTIFUL.map((sku) => ({ sku, available: 10 * orders })),
    { sku: STORY.sku, available: STORY.available },
    // One more than an even number: the last piece is too few for anybody.
    { sku: SCARCE.sku, available: SCARCE.quantity * Math.floor(scarce * SCARCE.covered) + 1 },
  ];
  const lines = withSteps(onTheClock(placed, random), random);
  return [...opening.map((stock) => ({ afterMs: 0, stock })), ...lines];
}

function makeOrders(count: number, scarce: number, random: () => number): Order[] {
  const lateFrom = Math.round(count * LATE.from);
  const lateTo = lateFrom + Math.max(1, Math.round(count * LATE.share));
  const scarceEvery = Math.floor(count / scarce);
  let scarceLeft = scarce;
  return Array.from({ length: count }, (_, index) => {
    const number = String(index + 1).padStart(5, '0');
    const order: Order = {
      orderId: random() < 0.02 ? `Bestellung №${number} ✓` : `order-${number}`,
      sku: PLENTIFUL[Math.floor(random() * PLENTIFUL.length)] ?? '',
      quantity: 1 + Math.floor(random() * 5),
    };
    if (random() < 0.2) order.note = NOTES[Math.floor(random() * NOTES.length)] ?? '';
    if (index === 1) return { ...order, orderId: STORY.orderId, sku: STORY.sku, quantity: STORY.quantity };
    if (index >= lateFrom && index < lateTo) return { ...order, sku: LATE.sku };
    if (index % scarceEvery === scarceEvery - 1 && scarceLeft-- > 0)
      return { ...order, sku: SCARCE.sku, quantity: SCARCE.quantity };
    return order;
  });
}

/** Puts the orders on the clock: a steady pace with bursts in it, and some posted again, at once or later. */
function onTheClock(orders: Order[], random: () => number): Line[] {
  const pace = Math.min(PACE_MS, MOST_MS / orders.length) / (1 - BURSTS.count * BURSTS.share);
  const lastLate = orders.findLastIndex(({ sku }) => sku === LATE.sku);
  return orders.flatMap((order, index) => {
    const inBurst = (index / orders.length) % (1 / BURSTS.count) > 1 / BURSTS.count - BURSTS.share;
    const lines: Line[] = [{ afterMs: inBurst ? 0 : Math.round(2 * pace * random()), order }];
    if (order.orderId === STORY.orderId || random() < REPEATED_SHARE / 2) lines.push({ afterMs: 0, order });
    const earlier = orders[Math.floor(random() * index)];
    if (earlier && random() < REPEATED_SHARE / 2) lines.push({ afterMs: 0, order: earlier });
    if (index === lastLate)
      lines.push({ afterMs: 0, stock: { sku: LATE.sku, available: 10 * orders.length }, late: true });
    return lines;
  });
}

/** Pays about every fourth order, some of them twice, and ships about half of what was paid. */
function withSteps(lines: Line[], random: () => number): Line[] {
  const after = new Map<number, Line[]>();
  const put = (index: number, line: Line) => {
    const at = Math.min(index, lines.length - 1);
    after.set(at, [...(after.get(at) ?? []), line]);
    return at;
  };
  const soon = () => Math.floor(random() * STEPS.within);
  const placed = new Set<string>();
  for (const [index, line] of lines.entries()) {
    if (!('order' in line) || placed.has(line.order.orderId)) continue;
    const { orderId } = line.order;
    placed.add(orderId);
    if (random() >= STEPS.paid) continue;
    const pay: Line = { afterMs: 0, orderId, step: 'paid' };
    const paidAt = put(index + soon(), pay);
    if (random() < STEPS.paidAgain) put(paidAt + soon(), pay);
    if (random() < STEPS.shippedOfPaid) put(paidAt + soon(), { afterMs: 0, orderId, step: 'shipped' });
  }
  return lines.flatMap((line, index) => [line, ...(after.get(index) ?? [])]);
}

/** The lines as they stand in the file. */
export const textOf = (lines: Line[]): string => `${lines.map((line) => JSON.stringify(line)).join('\n')}\n`;

/** Reads a file of lines. */
export const linesOf = (text: string): Line[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Line);

if (import.meta.main) {
  const { values } = parseArgs({ options: { orders: { type: 'string' }, seed: { type: 'string' } } });
  const lines = generate({
    orders: Number(values.orders ?? DEFAULTS.orders),
    seed: Number(values.seed ?? DEFAULTS.seed),
  });
  writeFileSync(join(import.meta.dirname, 'orders.jsonl'), textOf(lines));
}
