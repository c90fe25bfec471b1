// `outbox init`: gives an existing Prisma project on the Serverless Framework what the outbox needs.

import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { UsageError } from '../local/errors.ts';

const root = path.resolve(import.meta.dirname, '../..');
const FILES = path.join(import.meta.dirname, 'files');
const OWN = {
  schema: path.join(root, 'prisma/schema.prisma'),
  migrations: path.join(root, 'prisma/migrations'),
};
const MODELS = /^model (?:OutboxEvent|AppliedEvent) \{$[^]*?^\}$/gm;
/** Where Prisma looks for a schema: a file, or a folder of them. */
const SCHEMAS = ['prisma/schema.prisma', 'prisma/schema', 'schema.prisma'];

/** A project's Prisma schema: one file, or a folder of them. */
interface Schema {
  /** The file, or the folder. */
  readonly at: string;
  readonly isFolder: boolean;
  /** All of it. */
  readonly text: string;
}

/**
 * Adds to the project in `directory`: the two models, their migrations, and a folder `outbox` with the functions and
 * their part of serverless.yml. What is there already is kept as it is, so it may be run again after an update.
 *
 * @returns what was done to each file, a line each
 * @throws UsageError when there is no Prisma schema, or one of another database; nothing was written then
 */
export function init(directory: string, args: readonly string[] = []): string[] {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({ args: [...args], options: { schema: text, migrations: text } });
  const schema = findSchema(directory, values.schema);
  const folder = schema.isFolder ? schema.at : path.dirname(schema.at);
  const beside = path.join(path.basename(folder) === 'schema' ? path.dirname(folder) : folder, 'migrations');
  const migrations = values.migrations ? path.resolve(directory, values.migrations) : beside;
  const lines = [addModels(schema), ...addMigrations(migrations), ...addFunctions(directory, schema)];
  return lines.map(({ file, was }) => `${was.padEnd(8)} ${path.relative(directory, file)}`);
}

type Done = { readonly file: string; readonly was: 'written' | 'added to' | 'kept' };

function findSchema(directory: string, given: string | undefined): Schema {
  const found = (given ? [given] : SCHEMAS)
    .map((name) => path.resolve(directory, name))
    .find((at) => existsSync(at));
  if (found === undefined) {
    const looked = given ?? SCHEMAS.join(', ');
    throw new UsageError(`no Prisma schema here (looked for ${looked}); say where with --schema PATH`);
  }
  const isFolder = statSync(found).isDirectory();
  const files = isFolder ? readdirSync(found).filter((name) => name.endsWith('.prisma')) : [''];
  const text = files.map((name) => readFileSync(path.join(found, name), 'utf8')).join('\n');
  const [, provider] = /^datasource [^]*?provider\s*=\s*"([^"]*)"/m.exec(text) ?? [];
  if (!provider?.startsWith('postgres')) {
    throw new UsageError(
      `the outbox needs PostgreSQL; the datasource of ${found} has ${provider ?? 'no provider'}`,
    );
  }
  return { at: found, isFolder, text };
}

function addModels({ at, isFolder, text }: Schema): Done {
  const file = isFolder ? path.join(at, 'outbox.prisma') : at;
  if (/^model OutboxEvent \{/m.test(text)) return { file, was: 'kept' };
  const models = readFileSync(OWN.schema, 'utf8').match(MODELS) ?? [];
  // Without the preview feature Prisma has no words for a partial index, and takes it for a whole one.
  const known = models.map((model) =>
    text.includes('partialIndexes') ? model : model.replaceAll(/, where: raw\("[^"]*"\)/g, ''),
  );
  const added = `// Of prisma-outbox-relay: its columns' comments, checks and storage are in the migrations.\n${known.join('\n\n')}\n`;
  writeFileSync(file, isFolder ? added : `${text.trimEnd()}\n\n${added}`);
  return { file, was: isFolder ? 'written' : 'added to' };
}

function addMigrations(folder: string): Done[] {
  const own = readdirSync(OWN.migrations).filter((name) => name.includes('_outbox'));
  return [...own, 'migration_lock.toml'].map((name) =>
    add(path.join(OWN.migrations, name), path.join(folder, name)),
  );
}

function addFunctions(directory: string, schema: Schema): Done[] {
  const folder = path.join(directory, 'outbox');
  const extension = extensionIn(directory);
  const client = clientOf(schema, folder, extension);
  return readdirSync(FILES).map((name) => {
    const file = path.join(folder, name);
    if (existsSync(file)) return { file, was: 'kept' };
    const text = readFileSync(path.join(FILES, name), 'utf8');
    mkdirSync(folder, { recursive: true });
    writeFileSync(file, text.replaceAll('<client>', client).replaceAll('<extension>', extension));
    return { file, was: 'written' };
  });
}

function add(from: string, file: string): Done {
  if (existsSync(file)) return { file, was: 'kept' };
  cpSync(from, file, { recursive: true });
  return { file, was: 'written' };
}

/** What the project's compiler wants at the end of a relative import. */
function extensionIn(directory: string): string {
  const file = path.join(directory, 'tsconfig.json');
  const options = existsSync(file) ? readFileSync(file, 'utf8') : '';
  if (/"(?:allowImportingTsExtensions|rewriteRelativeImportExtensions)"\s*:\s*true/.test(options))
    return '.ts';
  return /"(?:module|moduleResolution)"\s*:\s*"node(?:16|18|20|next)"/i.test(options) ? '.js' : '';
}

/** The import of the project's Prisma client: a file of the generator's output, or the package. */
function clientOf({ at, isFolder, text }: Schema, folder: string, extension: string): string {
  const [generator = ''] = /^generator [^]*?^\}/m.exec(text) ?? [];
  const output = /^\s*output\s*=\s*"([^"]*)"/m.exec(generator)?.[1];
  if (output === undefined) return '@prisma/client';
  const client = path.join(isFolder ? at : path.dirname(at), output, `client${extension}`);
  const relative = path.relative(folder, client).replaceAll(path.sep, '/');
  // The older generator makes a folder that is a package.
  const isPackage = /^\s*provider\s*=\s*"prisma-client-js"/m.test(generator);
  return isPackage ? path.posix.dirname(relative) : relative;
}
