// npm run mutants [-- --only <part of a name>] [-- --thorough]: takes safeguards out of a copy of the tree, one at a time,
// and runs what must notice, until something does (--thorough: everything that is expected to). Writes the table into
// docs/reliability.md when all were run. Ends with 1 when a mutant survives.

import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { format, resolveConfig } from 'prettier';
import { look, type Sight } from './catch.ts';
import { mutants, type Mutant } from './mutants.ts';
import { createScratch, type Scratch } from './scratch.ts';

const DOCUMENT = new URL('../../docs/reliability.md', import.meta.url);
const TABLE = /(<!-- mutants -->\n)[^]*(<!-- end of mutants -->)/;

const { values } = parseArgs({
  options: { only: { type: 'string' }, thorough: { type: 'boolean', default: false } },
});

const scratch = createScratch();
process.on('exit', () => scratch.remove());

async function judge({ name, edits, catchers }: Mutant): Promise<{ name: string; sights: Sight[] }> {
  scratch.mutate(edits);
  try {
    const sights: Sight[] = [];
    for (const catcher of catchers) {
      const sight = await look(scratch.directory, catcher);
      sights.push(sight);
      console.log(`${sight.by ? '✓' : '·'} ${name} → ${sight.by ?? 'not seen'}\n    ${sight.how}`);
      if (sight.by && !values.thorough) break;
    }
    return { name, sights };
  } finally {
    scratch.restore();
  }
}

const chosen = mutants.filter(({ name }) => name.includes(values.only ?? ''));
// Every text must still be there before anything is run.
for (const mutant of chosen) fits(scratch, mutant);
const judged: Awaited<ReturnType<typeof judge>>[] = [];
for (const mutant of chosen) judged.push(await judge(mutant));
const survivors = judged.filter(({ sights }) => sights.every(({ by }) => by === undefined));
for (const { name } of survivors) console.log(`✗ survives: ${name}`);
if (values.only === undefined && survivors.length === 0) await writeTable();
console.log(`${judged.length - survivors.length} of ${judged.length} mutants caught`);
if (survivors.length > 0) process.exitCode = 1;

function fits({ mutate, restore }: Scratch, { edits }: Mutant): void {
  mutate(edits);
  restore();
}

async function writeTable(): Promise<void> {
  const rows = judged.map(({ name, sights }) => {
    const by = sights.flatMap((sight) => sight.by ?? []).join('<br>');
    return `| ${name} | ${by} |`;
  });
  const table = ['', '| Taken out | Caught by |', '| --- | --- |', ...rows, '', ''].join('\n');
  const text = readFileSync(DOCUMENT, 'utf8');
  if (!TABLE.test(text)) throw new Error('docs/reliability.md has no place for the table');
  const written = text.replace(TABLE, (_, start: string, end: string) => start + table + end);
  const filepath = fileURLToPath(DOCUMENT);
  writeFileSync(DOCUMENT, await format(written, { ...(await resolveConfig(filepath)), filepath }));
}
