// What a campaign prints.

import { faultsOf, type Summary } from './campaign.ts';
import type { History } from './history.ts';

/** A history that failed: how to run it again, what it broke, and what led to it. */
export function failureText({ seed, violations, timeline }: History): string {
  return [
    `✗ history ${seed} (again: npm run campaign -- --seed ${seed})`,
    ...violations.map(({ promise, what, ids }) => `    ${promise}: ${what} ${ids.join(' ')}`),
    ...timeline.map((line) => `    ${line}`),
  ].join('\n');
}

/** One line on how far it is. */
export function progressText(summary: Summary): string {
  const { histories, violations, milliseconds, counts } = summary;
  const events = counts['events committed'] ?? 0;
  return `${histories} histories in ${seconds(milliseconds)}: ${events} events, ${faultsOf(summary)} faults, ${violations} violations`;
}

/** The whole account. */
export function summaryText(summary: Summary): string {
  return [
    progressText(summary),
    '',
    ...table(summary.counts),
    ...table({ 'processes started': summary.processes }),
    '',
    'Faults struck, and errands done:',
    ...table(summary.strikes),
  ].join('\n');
}

/** Counts by name, a line each. */
export const table = (counts: Readonly<Record<string, number>>): string[] =>
  Object.entries(counts)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, count]) => `  ${String(count).padStart(8)}  ${name}`);

const seconds = (milliseconds: number) => `${Math.round(milliseconds / 1_000)} s`;
