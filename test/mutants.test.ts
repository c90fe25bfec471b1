// What `npm run mutants` takes out must still be there, and so must the tests that are to notice.

import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { mutants } from './mutants/mutants.ts';

const read = (file: string) => readFileSync(new URL(`../${file}`, import.meta.url), 'utf8');

test.each(mutants)('$name: is there once, and has somebody to miss it', ({ edits, catchers }) => {
  for (const { file, search } of edits) expect(read(file).split(search), search).toHaveLength(2);
  for (const catcher of catchers) if ('file' in catcher) expect(read(catcher.file)).toContain(catcher.name);
  expect(catchers.length).toBeGreaterThan(0);
});
