// Every link within the documents leads to a file, and to a heading, that exists.

import { access, readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { anchorsOf } from '../infra/template/check.ts';

const root = path.resolve(import.meta.dirname, '..');
const pages = (await readdir(path.join(root, 'docs'))).filter((file) => file.endsWith('.md'));
const documents = ['README.md', ...pages.map((file) => `docs/${file}`)];

/** What is wrong with a relative link, or undefined. */
async function problemOf(document: string, link: string): Promise<string | undefined> {
  const [file = '', anchor] = link.split('#');
  const target = file === '' ? path.join(root, document) : path.resolve(root, path.dirname(document), file);
  try {
    await access(target);
  } catch {
    return `${link}: no such file`;
  }
  if (anchor === undefined) return undefined;
  return anchorsOf(await readFile(target, 'utf8')).has(anchor) ? undefined : `${link}: no such heading`;
}

test.each(documents)('the links of %s lead somewhere', async (document) => {
  const text = await readFile(path.join(root, document), 'utf8');
  const links = [...text.matchAll(/\]\((?!\w+:)([^)\s]+)\)/g)].map(([, link = '']) => link);
  const problems = await Promise.all(links.map((link) => problemOf(document, link)));
  expect(problems.filter((problem) => problem !== undefined)).toEqual([]);
});
