// The README is what a newcomer has: its commands, settings and snippets are held against the code.

import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import type { ZodType } from 'zod';
import { consumerShape } from '../functions/consumer/config.ts';
import { ordersShape } from '../functions/orders/config.ts';
import { pruneShape } from '../functions/prune/config.ts';
import { relayShape } from '../functions/relay/config.ts';
import { databaseShape } from '../functions/shared/config.ts';
import { settingsTable } from './support/settings-table.ts';

const read = (path: string) => readFile(new URL(`../${path}`, import.meta.url), 'utf8');

test('the two commands for a fresh machine stand in it', async () => {
  const readme = await read('README.md');
  expect(readme).toContain('npm ci && npm run demo');
  expect(readme).toContain('npm ci && npm test');
});

test('every npm script that a document names exists', async () => {
  const { scripts } = JSON.parse(await read('package.json')) as { scripts: Record<string, string> };
  for (const document of ['README.md', 'docs/operations.md', 'docs/deploy.md']) {
    const named = [...(await read(document)).matchAll(/npm (?:run )?([a-z][a-z:]*)/g)].map(
      ([, name = '']) => name,
    );
    expect(named.length).toBeGreaterThan(0);
    const unknown = named.filter((name) => !(name in scripts) && !['ci', 'install'].includes(name));
    expect(unknown, document).toEqual([]);
  }
});

/** What a function reads beside the database's settings, which have a table of their own. */
const ownSettings = (shape: Record<string, ZodType>) =>
  Object.fromEntries(Object.entries(shape).filter(([setting]) => !(setting in databaseShape)));

test.each([
  ['database', databaseShape],
  ['relay', relayShape],
  ['consumer', consumerShape],
  ['prune', pruneShape],
  ['orders', ordersShape],
])('the settings of %s are the ones it reads, with their defaults', async (name, shape) => {
  // The formatter pads the cells of a table.
  const unpadded = (await read('README.md')).replaceAll(/ +\|/g, ' |').replaceAll(/-{3,}/g, '---');
  const table = settingsTable(name === 'database' ? shape : ownSettings(shape));
  expect(unpadded).toContain(`<!-- settings: ${name} -->\n\n${table}`);
});

test('its code is in the files it names', async () => {
  const snippets = [...(await read('README.md')).matchAll(/<!-- (functions\/\S+) -->\n+```ts\n([^]*?)```/g)];
  expect(snippets.length).toBeGreaterThanOrEqual(4);
  for (const [, path = '', snippet = ''] of snippets) {
    const source = await read(path);
    let from = 0;
    // A line with … alone leaves something out.
    for (const part of snippet.split(/^…\n/m)) {
      const at = source.indexOf(part, from);
      expect(at, `${path}: ${part}`).toBeGreaterThanOrEqual(0);
      from = at + part.length;
    }
  }
});
