// The outbox's models in a project's schema.

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { UsageError } from '../local/errors.ts';
import { blocksOf, type Block, type Schema } from './schema.ts';

/** What was done to a file, or what a person has to do to it. */
export interface Done {
  readonly file: string;
  readonly was: 'written' | 'added to' | 'kept' | 'look at';
  readonly why?: string;
}

/** The condition of a partial index, as the feature of that name spells it. */
const CONDITION = /, where: raw\("[^"]*"\)/g;

const TABLES = { OutboxEvent: 'outbox_event', AppliedEvent: 'applied_event' };

/**
 * Adds the outbox's models, which `own` has, where the schema lacks them. A model that is there is compared.
 *
 * @throws UsageError when a name or a table is taken by something else; nothing was written then
 */
export function addModels(schema: Schema, own: string): Done[] {
  const { at, isFolder, blocks } = schema;
  const models = blocksOf(own).filter(({ name }) => name in TABLES);
  for (const { name } of models) refuseTaken(blocks, name as keyof typeof TABLES);
  const isThere = (name: string) => blocks.find((block) => block.kind === 'model' && block.name === name);
  const missing = models.filter(({ name }) => !isThere(name));
  const file = isFolder ? path.join(at, 'outbox.prisma') : at;
  const was = existsSync(file) ? 'added to' : 'written';
  if (missing.length > 0) append(file, missing.map((model) => textOf(model, blocks)).join('\n'));
  return [
    ...(missing.length > 0 ? [{ file, was } as const] : []),
    ...models.flatMap((model) => {
      const theirs = isThere(model.name);
      return theirs ? [compared(model, theirs)] : [];
    }),
  ];
}

function refuseTaken(blocks: readonly Block[], name: keyof typeof TABLES): void {
  const table = TABLES[name];
  const map = new RegExp(`@@map\\(\\s*(?:name:\\s*)?"${table}"\\s*\\)`);
  // A table of another of the database's schemas is another one.
  const isOfTable = ({ kind, name: own, body }: Block) =>
    ['model', 'view'].includes(kind) &&
    (map.test(body) || own === table) &&
    !/@@schema\("(?!public")/.test(body);
  const taken = blocks.find((block) =>
    block.name === name ? block.kind !== 'model' || !map.test(block.body) : isOfTable(block),
  );
  if (taken) {
    throw new UsageError(
      `${taken.file} has a ${taken.kind} ${taken.name} of its own; the outbox needs the model ${name} and the table ${table}`,
    );
  }
}

/** A model as this project may write it: partial indexes are a preview feature, several schemas an option. */
function textOf({ name, body }: Block, blocks: readonly Block[]): string {
  const knowsPartial = blocks.some(
    ({ kind, body: text }) =>
      kind === 'generator' && /^\s*previewFeatures\s*=\s*\[[^\]]*"partialIndexes"/m.test(text),
  );
  const schemas = blocks.flatMap(({ kind, body: text }) =>
    kind === 'datasource' ? (/^\s*schemas\s*=\s*\[([^\]]*)\]/m.exec(text)?.[1] ?? []) : [],
  );
  if (schemas.some((names) => !names.includes('"public"'))) {
    throw new UsageError('the outbox is in the schema public; add it to the schemas of the datasource');
  }
  const indexed = knowsPartial ? body : body.replaceAll(CONDITION, '');
  return `model ${name} {${indexed}${schemas.length > 0 ? '  @@schema("public")\n' : ''}}\n`;
}

function append(file: string, models: string): void {
  const before = existsSync(file) ? `${readFileSync(file, 'utf8').trimEnd()}\n\n` : '';
  const text = `${before}// Of prisma-outbox-relay; checks, storage and comments of the columns are in the migrations.\n${models}`;
  writeFileSync(file, before.includes('\r\n') ? text.replaceAll(/\r?\n/g, '\r\n') : text);
}

const linesOf = ({ body }: Block) =>
  body
    .replaceAll(CONDITION, '')
    .split('\n')
    .map((line) => line.replaceAll(/\s+/g, ' ').trim());

function compared(own: Block, theirs: Block): Done {
  const have = new Set(linesOf(theirs));
  const lacking = linesOf(own).filter((line) => line !== '' && !have.has(line));
  if (lacking.length === 0) return { file: theirs.file, was: 'kept' };
  return {
    file: theirs.file,
    was: 'look at',
    why: `${own.name} lacks, or has otherwise:\n    ${lacking.join('\n    ')}`,
  };
}
