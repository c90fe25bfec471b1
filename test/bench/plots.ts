// `npm run bench -- plots`: plots and tables of what was measured last, into docs/.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { format, resolveConfig } from 'prettier';
import { barChart, type Bar } from './harness/bars.ts';
import { machineText } from './harness/machine.ts';
import type { Spread } from './harness/stats.ts';
import { hasResult, kept, tableText } from './harness/table.ts';

const docs = fileURLToPath(new URL('../../docs/', import.meta.url));
const isOurs = (name: string) => name.startsWith('ours');

/** Draws every plot whose result is there, and fills in the tables of the documents. @returns what was written */
export async function plots(): Promise<string[]> {
  mkdirSync(join(docs, 'plots'), { recursive: true });
  const drawn = Object.entries(PLOTS).flatMap(([file, { from, draw }]) => {
    if (!hasResult(from)) return [];
    writeFileSync(join(docs, 'plots', file), draw(kept(from).data));
    return [`docs/plots/${file}`];
  });
  const filled = await Promise.all(['performance.md', 'scaling.md'].map(fillIn));
  return [...drawn, ...filled];
}

type Data = Readonly<Record<string, unknown>>;
type Drains = Readonly<Record<string, { eventsPerSecond: Spread; nodeMicros: Spread }>>;

const PLOTS: Readonly<Record<string, { from: string; draw: (data: Data) => string }>> = {
  'relay-throughput.svg': {
    from: 'relay',
    draw: ({ near }) =>
      barChart('Draining a backlog to SQS', 'events/s, median [min–max]', drains(near as Drains)),
  },
  'relay-far.svg': {
    from: 'relay',
    draw: ({ far }) =>
      barChart('The same, as far apart as in a region', 'events/s, median [min–max]', drains(far as Drains)),
  },
  'relay-cpu.svg': {
    from: 'relay',
    draw: ({ near }) =>
      barChart(
        'What an event costs the relay',
        'µs of Node CPU an event; those above 1,000 are left out',
        Object.entries(near as Drains)
          .map(([label, { nodeMicros }]) => ({ label, value: nodeMicros.median, strong: isOurs(label) }))
          .filter(({ value }) => value < 1_000),
      ),
  },
  'latency.svg': {
    from: 'latency',
    draw: ({ ways }) => {
      const all = ways as { way: string; rate: number; published: number[]; applied: number[] }[];
      const bars = all.flatMap(({ way, rate, published, applied }) =>
        (
          [
            ['published', published],
            ['applied', applied],
          ] as const
        ).flatMap(([place, values]): Bar[] => {
          const [p50, p99] = [values[2], values[6]];
          if (typeof p50 !== 'number' || typeof p99 !== 'number') return [];
          return [
            { label: `${way}, ${rate}/s, ${place}`, value: p50, min: p50, max: p99, strong: isOurs(way) },
          ];
        }),
      );
      return barChart('Latency from commit', 'ms: the bar is p50, the line ends at p99', bars);
    },
  },
  'claim-growth.svg': {
    from: 'growth',
    draw: ({ base }) =>
      barChart(
        'Claim and acknowledge 100 events, by what else is in the table',
        'ms: the bar is p50, the line ends at p95',
        (base as { name: string; claimed: { p50: number; p95: number } }[]).map(({ name, claimed }) => ({
          label: name,
          value: claimed.p50,
          min: claimed.p50,
          max: claimed.p95,
          strong: true,
        })),
      ),
  },
};

const drains = (all: Drains): Bar[] =>
  Object.entries(all).map(
    ([
      label,
      {
        eventsPerSecond: { median: value, min, max },
      },
    ]) => ({
      label,
      value,
      min,
      max,
      strong: isOurs(label),
    }),
  );

/** Puts the newest tables between `<!-- bench NAME -->` and `<!-- end NAME -->`. */
async function fillIn(file: string): Promise<string> {
  const path = join(docs, file);
  const text = readFileSync(path, 'utf8').replace(
    /<!-- bench ([\w-]+) -->[^]*?<!-- end \1 -->/g,
    (whole, name: string) =>
      hasResult(name) ? `<!-- bench ${name} -->\n\n${sectionOf(name)}\n<!-- end ${name} -->` : whole,
  );
  const options = await resolveConfig(path);
  writeFileSync(path, await format(text, { ...options, parser: 'markdown' }));
  return `docs/${file}`;
}

function sectionOf(name: string): string {
  const { command, tables, machine } = kept(name);
  return [`\`${command}\``, '', ...tables.map(tableText), `_${machineText(machine)}_`, ''].join('\n');
}
