// What a benchmark shows: Markdown on standard output, JSON in .local/bench/.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Machine } from './machine.ts';

/** One table. */
export interface Table {
  readonly title: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
  /** What one must know to read it. */
  readonly note?: string;
}

/** What a benchmark returns: tables for people, figures for plots and the model. */
export interface Result {
  readonly tables: readonly Table[];
  readonly data: Readonly<Record<string, unknown>>;
}

/** A result as it is kept. */
export interface Kept extends Result {
  readonly name: string;
  readonly command: string;
  readonly machine: Machine;
}

const root = fileURLToPath(new URL('../../../', import.meta.url));
const directory = join(root, '.local', 'bench');

const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;

/** A table in Markdown. */
export function tableText({ title, columns, rows, note }: Table): string {
  const lines = [line(columns), line(columns.map(() => '---')), ...rows.map(line)];
  return [`**${title}**`, '', ...lines, ...(note === undefined ? [] : ['', note]), ''].join('\n');
}

/** Keeps a result; @returns where. */
export function keep(kept: Kept): string {
  mkdirSync(directory, { recursive: true });
  const path = join(directory, `${kept.name}.json`);
  writeFileSync(path, `${JSON.stringify(kept, null, 2)}\n`);
  return path;
}

/** Whether there is a result. */
export const hasResult = (name: string): boolean => existsSync(join(directory, `${name}.json`));

/** The result that was kept last; throws a sentence that says how to make one. */
export function kept(name: string): Kept {
  try {
    return JSON.parse(readFileSync(join(directory, `${name}.json`), 'utf8')) as Kept;
  } catch (cause) {
    throw new Error(`No result of "${name}" yet: npm run bench -- ${name}`, { cause });
  }
}
