// Runs what is expected to notice a mutant, and says whether it did.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { Catcher } from './mutants.ts';

/** Far more than any of them needs. */
const RUN_MS = 600_000;

/** What a catcher saw; `by` is undefined when it saw nothing. */
export interface Sight {
  readonly by: string | undefined;
  /** How it saw it, in a line. */
  readonly how: string;
}

export const look = (directory: string, catcher: Catcher): Promise<Sight> =>
  'file' in catcher ? lookByTest(directory, catcher) : lookByCampaign(directory, catcher);

interface TestReport {
  numPassedTests: number;
  testResults: { assertionResults: { status: string; title: string; failureMessages: string[] }[] }[];
}

/** A run that broke for another reason than a failed test is no sight; nor is one in which nothing ran. */
async function lookByTest(
  directory: string,
  { file, name }: Extract<Catcher, { file: string }>,
): Promise<Sight> {
  const report = join(directory, 'mutant-report.json');
  rmSync(report, { force: true });
  const vitest = ['node_modules/vitest/vitest.mjs', 'run', '--maxWorkers=1', '--retry=0'];
  const args = [...vitest, file, '-t', asPattern(name), '--reporter=json', `--outputFile=${report}`];
  const { output } = await run(directory, args);
  if (!existsSync(report)) throw new Error(`no test report of ${file}:\n${output}`);
  const { numPassedTests, testResults } = JSON.parse(readFileSync(report, 'utf8')) as TestReport;
  const assertions = testResults.flatMap(({ assertionResults }) => assertionResults);
  const failed = assertions.filter(({ status }) => status === 'failed');
  if (failed.length + numPassedTests === 0) throw new Error(`no test of ${file} has: ${name}\n${output}`);
  const [first] = failed;
  const how = first?.failureMessages[0]?.split('\n')[0] ?? '';
  return { by: first && `\`${file}\`: ${first.title}`, how };
}

const asPattern = (name: string) => name.replaceAll(/[()[\].*+?^$|\\]/g, '\\$&');

async function lookByCampaign(
  directory: string,
  { seed, histories }: Extract<Catcher, { seed: number }>,
): Promise<Sight> {
  const program = ['--disable-warning=ExperimentalWarning', 'test/campaign/main.ts', '--fail-fast'];
  const { output, status } = await run(directory, [
    ...program,
    '--seed',
    String(seed),
    '--histories',
    String(histories),
    '--side-by-side',
    '2',
  ]);
  const failed = /✗ history (\d+)[^\n]*\n +([^:]*): ([^\n]*)/.exec(output);
  if (status !== 0 && !failed) throw new Error(`the campaign broke:\n${output}`);
  return {
    by: failed ? `campaign, history ${failed[1]}: ${failed[2]}` : undefined,
    how: failed?.[3] ?? '',
  };
}

/** A Node program of the copy; ended with all that it started when it takes too long. */
async function run(directory: string, args: string[]): Promise<{ output: string; status: number | null }> {
  const child = spawn(process.execPath, args, {
    cwd: directory,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const end = () => process.kill(-(child.pid ?? 0), 'SIGTERM');
  const timer = setTimeout(end, RUN_MS);
  process.once('exit', end);
  try {
    const [[status], ...outputs] = await Promise.all([
      once(child, 'close') as Promise<[number | null]>,
      text(child.stdout),
      text(child.stderr),
    ]);
    return { output: outputs.join(''), status };
  } finally {
    clearTimeout(timer);
    process.off('exit', end);
  }
}
