// `npm run template:check`: what is wrong with the template that `npm run package` left in `.serverless/`.

import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { templateErrors } from './template/check.ts';
import type { Template } from './template/document.ts';

const root = path.resolve(import.meta.dirname, '..');

/** The template that the last packaging wrote. Throws when there is none. */
export async function packagedTemplate(directory = root): Promise<Template> {
  const file = path.join(directory, '.serverless/cloudformation-template-update-stack.json');
  return JSON.parse(await readFile(file, 'utf8')) as Template;
}

if (import.meta.main) {
  const runbook = await readFile(path.join(root, 'docs/operations.md'), 'utf8');
  const errors = await templateErrors(await packagedTemplate(), runbook);
  for (const error of errors) console.error(error);
  if (errors.length > 0) process.exitCode = 1;
}
