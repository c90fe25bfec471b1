// Rebuilds functions when their source changes.

import { createHash } from 'node:crypto';
import { watch } from 'chokidar';
import { readFile } from 'node:fs/promises';
import { build } from '../../build.ts';
import { PROJECT } from '../package.ts';
import type { Stack } from '../stack.ts';

/** What goes into the zips. */
const SOURCES = ['functions', 'prisma'];
/** An editor writes a file in several steps, and `git checkout` many files. */
const SETTLE_MS = 200;

/**
 * Watches the sources; when they have changed and settled, builds every zip and reloads the functions whose zip is
 * another one now. A build that fails is said, and the functions stay as they were.
 */
export function rebuildOnChange(stack: Stack, say: (text: string) => void): { stop(): Promise<void> } {
  let timer: NodeJS.Timeout | undefined;
  let rebuilding = Promise.resolve();
  const changed = () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      rebuilding = rebuilding.then(() => rebuild(stack, say));
    }, SETTLE_MS);
  };
  // Not fs.watch: on Linux it loses a file that an editor replaces instead of writing.
  const watcher = watch(SOURCES, { cwd: PROJECT, ignoreInitial: true }).on('all', changed);
  return {
    stop: async () => {
      clearTimeout(timer);
      await watcher.close();
      await rebuilding;
    },
  };
}

async function rebuild(stack: Stack, say: (text: string) => void): Promise<void> {
  try {
    const before = await zipHashes(stack);
    await build();
    const after = await zipHashes(stack);
    const changed = Object.values(stack.functions).filter(({ name }) => before[name] !== after[name]);
    for (const changedFunction of changed) await changedFunction.reload();
    if (changed.length > 0) say(`rebuilt: ${changed.map(({ name }) => name).join(', ')}`);
  } catch (error) {
    say(`not built: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** Zips are reproducible: the same bytes are the same code. */
async function zipHashes(stack: Stack): Promise<Record<string, string>> {
  const hashes = Object.values(stack.functions).map(async ({ name, zip }) => {
    const content = await readFile(zip);
    return [name, createHash('sha256').update(content).digest('hex')] as const;
  });
  return Object.fromEntries(await Promise.all(hashes));
}
