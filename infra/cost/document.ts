// Prints docs/cost.md from the counts and the prices.

import { format } from 'prettier';
import type { Template } from '../template/document.ts';
import {
  busyMetrics,
  CHOICES,
  idleConsumers,
  idleGauge,
  idleRelay,
  millionEvents,
  telling,
  type Line,
} from './count.ts';
import { ASSUMPTIONS, PRICED, PRICES, type Item } from './prices.ts';

/** The whole document, formatted as the repository is. */
export async function costDocument(template: Template): Promise<string> {
  const sections = [
    preamble(),
    idleMonth(template),
    millionSection(template),
    choices(),
    assumptions(),
    prices(),
  ];
  return format(sections.join('\n\n'), { parser: 'markdown', printWidth: 110 });
}

const preamble = (): string => `# What it costs

<!-- \`npm run cost -- --write\` wrote this page; a test holds it to that. -->

List prices in US dollars, region ${PRICED.region}, as of ${PRICED.month}: **check them**, they were typed in by hand. Nothing here has been compared with a bill. The numbers of calls come from the packaged template (stage \`prod\`); what it cannot say is an [assumption](#assumptions). The database, and the example's HTTP API, are not in the sums.`;

function idleMonth(template: Template): string {
  const relay = idleRelay(template);
  const gauge = idleGauge(template);
  const told = telling(template);
  const consumers = idleConsumers(template);
  const sums = (all: Line[]): [string, string] => [dollars(total(all)), dollars(totalAfterFree(all))];
  const [atList, afterFree] = sums(relay);
  const polls = relay.filter(({ what }) => what.startsWith('polls'));
  return `## An idle month

${table(
  ['', 'list price', "once the account's free units are used first"],
  [
    ['**the relay**: schedule, ticks, prune', `**${atList}**`, afterFree],
    ['the gauge, each minute', ...sums(gauge)],
    ['metrics, alarms, dashboard', ...sums(told)],
    ["the example's two consumers", ...sums(consumers)],
    ['everything together', ...sums([...relay, ...gauge, ...told, ...consumers])],
  ],
)}

The free units belong to the account for good, not to its first year; another service in it may have used them. The last column counts them anew for each row.

- **Without the gauge** (\`gaugeState: DISABLED\`, \`alarms: none\`) the second row and the alarms go, and nobody is told when the backlog grows.
- **Metrics** cost by the hour in which they are sent. An idle relay sends none; one that is never idle adds, with one consumer, up to ${dollars(total(busyMetrics()))} a month.
- **A tick each hour** (\`tickSchedule: rate(1 hour)\`, as in \`dev\`) leaves of the relay's ${atList} the polls, ${dollars(total(polls))}.

### The relay, line by line\n\n${lines(relay)}

### The gauge\n\n${lines(gauge)}

### Metrics, alarms, dashboard\n\n${lines(told)}

### Consumers\n\nEach further standard queue with a consumer costs as much as the first.\n\n${lines(consumers)}`;
}

const millionSection = (template: Template): string => `## A million events

To one standard queue and through its consumer, under load: **${dollars(total(millionEvents(template)))}**.

${lines(millionEvents(template))}`;

const choices = (): string => `## What you may choose besides

${table(
  ['per month', 'list price'],
  CHOICES.map(({ choice, lines: each }) => [choice, dollars(total(each))]),
)}

A tick every 10 s keeps Aurora awake: the third row is what that alone costs, before any storage.`;

const assumptions = (): string => `## Assumptions

${table(
  ['name', 'value', 'why'],
  Object.entries(ASSUMPTIONS).map(([name, { value, unit, why }]) => [
    `\`${name}\``,
    `${number(value)} ${unit}`,
    why,
  ]),
)}`;

const prices = (): string => `## Prices

${table(
  ['what', 'dollars', 'free per month', 'source'],
  Object.values(PRICES).map(({ dollars: price, per, unit, free, source }) => [
    per === 1 ? unit : `${number(per)} ${unit}`,
    String(price),
    free === 0 ? '–' : number(free),
    source,
  ]),
)}`;

/** What lines cost at list price, in dollars. */
export const total = (all: readonly Line[]): number =>
  all.reduce((sum, { item, count }) => sum + (count / PRICES[item].per) * PRICES[item].dollars, 0);

/** What is left of it when the account's free units are used for these lines first. */
export function totalAfterFree(all: readonly Line[]): number {
  const counts = new Map<Item, number>();
  for (const { item, count } of all) counts.set(item, (counts.get(item) ?? 0) + count);
  return [...counts].reduce(
    (sum, [item, count]) => sum + total([{ what: '', item, count: Math.max(0, count - PRICES[item].free) }]),
    0,
  );
}

const lines = (all: readonly Line[]): string =>
  table(
    ['what', 'how much', 'list price'],
    all.map((line) => [line.what, `${number(line.count)} ${PRICES[line.item].unit}`, dollars(total([line]))]),
  );

const table = (head: string[], rows: string[][]): string =>
  [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');

const dollars = (amount: number): string => `$${amount.toFixed(2)}`;

const number = (amount: number): string =>
  amount.toLocaleString('en-US', { maximumFractionDigits: amount < 10 ? 3 : 0 });
