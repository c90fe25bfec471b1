// A copy of the tree in which a mutant lives.

import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { Edit } from './mutants.ts';

const root = resolve(import.meta.dirname, '../..');

export interface Scratch {
  readonly directory: string;
  /** Throws when a text is not there exactly once: the source has changed, and the mutant with it must. */
  readonly mutate: (edits: readonly Edit[]) => void;
  readonly restore: () => void;
  readonly remove: () => void;
}

/** Copies what git knows or would know, and the generated client; dependencies are shared. */
export function createScratch(): Scratch {
  const directory = mkdtempSync(join(tmpdir(), 'outbox-mutants-'));
  const listed = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], {
    cwd: root,
    encoding: 'utf8',
  });
  const files = listed.split('\n').filter((file) => file !== '' && file !== 'node_modules');
  for (const file of [...files, 'prisma/client'])
    cpSync(join(root, file), join(directory, file), { recursive: true });
  symlinkSync(realpathSync(join(root, 'node_modules')), join(directory, 'node_modules'));
  const originals = new Map<string, string>();
  return {
    directory,
    mutate: (edits) => {
      for (const { file, search, replacement } of edits) {
        const path = join(directory, file);
        const text = readFileSync(path, 'utf8');
        if (!originals.has(path)) originals.set(path, text);
        const found = text.split(search).length - 1;
        if (found !== 1) throw new Error(`${file}: expected once, found ${found} times: ${search}`);
        writeFileSync(
          path,
          text.replace(search, () => replacement),
        );
      }
    },
    restore: () => {
      for (const [path, text] of originals) writeFileSync(path, text);
      originals.clear();
    },
    remove: () => rmSync(directory, { recursive: true, force: true }),
  };
}
