// `npm run cost`: prints docs/cost.md from the packaged template; with --write, puts it there.

import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { costDocument } from './cost/document.ts';
import { packagedTemplate } from './template-check.ts';

const document = await costDocument(await packagedTemplate());
if (process.argv.includes('--write')) {
  await writeFile(path.resolve(import.meta.dirname, '../docs/cost.md'), document);
} else {
  process.stdout.write(document);
}
