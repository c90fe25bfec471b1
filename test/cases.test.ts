// Every field case is somewhere in the tests: its id stands in a comment or in a title. What a case is about is said
// where it is tested, and where one holds in another way in docs/reliability.md.

import { globSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const CASES = [
  'A1 A3 A4 A5 A6 A7 A8 A9 A10 A11 A12',
  'B1 B3 B4 B5 B6 B8',
  'C1 C2 C5 C6 C7 C8 C9 C10 C11',
  'D1 D2 D4 D6 D7 D9',
  'E2 E3 E4 E5',
].flatMap((ids) => ids.split(' '));

/** Comments and titles of all test files but this one. */
const lines = globSync('test/*.test.ts')
  .filter((file) => !file.endsWith('cases.test.ts'))
  .flatMap((file) => readFileSync(file, 'utf8').split('\n'))
  .filter((line) => /^\s*\/\/|\btest|describe|^ *['`]/.test(line));

test.each(CASES)('%s is a test', (id) => {
  expect(lines.filter((line) => new RegExp(String.raw`\b${id}\b`).test(line))).not.toEqual([]);
});
