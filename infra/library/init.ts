// `outbox init`: gives an existing Prisma project on the Serverless Framework what the outbox needs.

import { getTsconfig } from 'get-tsconfig';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { UsageError } from '../local/errors.ts';
import { addModels, type Done } from './models.ts';
import { clientImport, readSchema } from './schema.ts';

const root = path.resolve(import.meta.dirname, '../..');
const FILES = path.join(import.meta.dirname, 'files');
const OWN = {
  schema: path.join(root, 'prisma/schema.prisma'),
  migrations: path.join(root, 'prisma/migrations'),
};
/** Examples, for a person to replace: written the first time alone. */
const EXAMPLES = ['events.ts', 'consumer.ts'];

/**
 * Adds to the project in `directory`: the two models, their migrations, and a folder (`outbox`) with the functions and
 * their part of serverless.yml. What is there already is kept as it is, so it may be run again after an update; where a
 * model that is there lacks something, it says so.
 *
 * @returns what was done to each file, a line each
 * @throws UsageError when there is no Prisma schema, one of another database, or one in which a name is taken; nothing
 *   was written then
 */
export async function init(directory: string, args: readonly string[] = []): Promise<string[]> {
  const text = { type: 'string' } as const;
  const options = { schema: text, migrations: text, folder: { ...text, default: 'outbox' } };
  const { values } = parseArgs({ args: [...args], options });
  const folder = folderIn(directory, values.folder);
  const schema = await readSchema(directory, values);
  const extension = extensionIn(directory);
  const client = clientImport(schema, path.resolve(directory, folder), extension);
  refuseFiles([path.resolve(directory, folder), schema.migrations]);
  const done = [
    ...addModels(schema, OWN.schema),
    ...addMigrations(schema.migrations),
    ...addFunctions(directory, folder, { '<client>': client, '<extension>': extension }),
  ];
  const lines = done.map(({ file, was, why }) =>
    [`${was.padEnd(8)} ${path.relative(directory, file)}`, why].filter(Boolean).join(': '),
  );
  // Both models are of one file.
  return [...new Set(lines)];
}

/** Where the functions go, from the project's folder on, as serverless.yml names their handlers. */
function folderIn(directory: string, given: string): string {
  const folder = path.relative(directory, path.resolve(directory, given)).replaceAll(path.sep, '/');
  if (given !== '' && /^[\w@./-]+$/.test(folder) && !folder.startsWith('..')) return folder;
  throw new UsageError(`--folder: expected a folder within the project, got ${JSON.stringify(given)}`);
}

/** Before anything is written: what is to be a folder is none. */
function refuseFiles(folders: readonly string[]): void {
  const file = folders.find((folder) => existsSync(folder) && !statSync(folder).isDirectory());
  if (file !== undefined) throw new UsageError(`${file} is a file; a folder is to be there`);
}

function addMigrations(folder: string): Done[] {
  const own = readdirSync(OWN.migrations).filter((name) => name.includes('_outbox'));
  return [...own, 'migration_lock.toml'].map((name) => {
    const file = path.join(folder, name);
    if (existsSync(name.endsWith('.toml') ? file : path.join(file, 'migration.sql')))
      return { file, was: 'kept' };
    cpSync(path.join(OWN.migrations, name), file, { recursive: true });
    return { file, was: 'written' };
  });
}

function addFunctions(directory: string, folder: string, blanks: Readonly<Record<string, string>>): Done[] {
  const isThere = (name: string) => existsSync(path.join(directory, folder, name));
  const isFirst = !['relay.ts', 'events.ts'].some(isThere);
  const names = readdirSync(FILES).filter((name) => isFirst || isThere(name) || !EXAMPLES.includes(name));
  return names.map((name) => {
    const file = path.join(directory, folder, name);
    if (existsSync(file)) return { file, was: 'kept' };
    const text = readFileSync(path.join(FILES, name), 'utf8').replaceAll('outbox/', `${folder}/`);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(
      file,
      text.replaceAll(/<\w+>/g, (blank) => blanks[blank] ?? blank),
    );
    return { file, was: 'written' };
  });
}

/** What the project's compiler wants at the end of a relative import. */
function extensionIn(directory: string): string {
  const { compilerOptions: options = {} } = getTsconfig(directory)?.config ?? {};
  if (options.allowImportingTsExtensions || options.rewriteRelativeImportExtensions) return '.ts';
  return /^node(?:1|2|next)/i.test(`${options.moduleResolution ?? options.module}`) ? '.js' : '';
}
