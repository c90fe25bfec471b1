// A project's Prisma schema, as far as `outbox init` has to know it.

import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { describeError } from '../../functions/shared/errors.ts';
import { UsageError } from '../local/errors.ts';

/** Where Prisma looks when its configuration says nothing. */
const DEFAULTS = ['prisma/schema.prisma', 'schema.prisma'];

/** One block of a schema, without comments. */
export interface Block {
  readonly kind: string;
  readonly name: string;
  readonly body: string;
  readonly file: string;
}

/** A project's schema: one file, or a folder of them. */
export interface Schema {
  /** The file, or the folder. */
  readonly at: string;
  readonly isFolder: boolean;
  readonly blocks: readonly Block[];
  readonly migrations: string;
}

/**
 * Reads the schema of the project in `directory`, where Prisma's own configuration says it is.
 *
 * @throws UsageError when there is none, or it is not one of PostgreSQL
 */
export async function readSchema(
  directory: string,
  given: { readonly schema?: string | undefined; readonly migrations?: string | undefined },
): Promise<Schema> {
  const configured = given.schema && given.migrations ? {} : await readConfiguration(directory);
  const candidates = [given.schema || configured.schema || DEFAULTS].flat();
  const at = candidates.map((name) => path.resolve(directory, name)).find((file) => existsSync(file));
  if (at === undefined) {
    throw new UsageError(
      `no Prisma schema here (looked for ${candidates.join(', ')}); say where with --schema PATH`,
    );
  }
  const isFolder = statSync(at).isDirectory();
  const blocks = (isFolder ? filesIn(at) : [at]).flatMap((file) => blocksOf(file));
  const beside = path.join(isFolder ? at : path.dirname(at), 'migrations');
  const migrations = path.resolve(directory, given.migrations || configured.migrations?.path || beside);
  refuseUnlessPostgres(at, blocks);
  return { at, isFolder, blocks, migrations };
}

const filesIn = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.prisma'))
    .map((entry) => path.join(entry.parentPath, entry.name));

interface Configuration {
  readonly schema?: string;
  readonly migrations?: { readonly path?: string };
}

/** What prisma.config.ts says, read by the project's own Prisma; nothing where there is neither. */
async function readConfiguration(directory: string): Promise<Configuration> {
  const load = loaderOf(directory);
  if (!load) return {};
  const { config, error } = await load({ configRoot: directory });
  if (config) return config;
  const reason = describeError(error?.error);
  throw new UsageError(
    `Prisma's configuration cannot be read (${reason}); mend it, or give --schema and --migrations`,
  );
}

type Loader = (options: { configRoot: string }) => Promise<{
  config?: Configuration;
  error?: { error?: unknown };
}>;

function loaderOf(directory: string): Loader | undefined {
  try {
    const prisma = createRequire(path.join(directory, 'package.json')).resolve('prisma/package.json');
    return (createRequire(prisma)('@prisma/config') as { loadConfigFromFile: Loader }).loadConfigFromFile;
  } catch {
    return undefined;
  }
}

/** The blocks of a schema's file. A comment within quotes is none. */
export function blocksOf(file: string): Block[] {
  const text = readFileSync(file, 'utf8').replaceAll(/("(?:\\.|[^"\\\n])*")|\/\*[^]*?\*\/|\/\/.*/g, '$1');
  const blocks = text.matchAll(/^[ \t]*(\w+)[ \t]+([\p{L}\p{N}_-]+)[ \t]*\{[ \t]*$([^]*?)^[ \t]*\}/gmu);
  return [...blocks].map(([, kind = '', name = '', body = '']) => ({ kind, name, body, file }));
}

function refuseUnlessPostgres(at: string, blocks: readonly Block[]): void {
  const datasource = blocks.find(({ kind }) => kind === 'datasource');
  const provider = datasource && valueOf(datasource, 'provider');
  if (!provider?.startsWith('postgres')) {
    throw new UsageError(
      `the outbox needs PostgreSQL; the datasource of ${at} has ${provider ?? 'no provider'}`,
    );
  }
}

const valueOf = ({ body }: Block, key: string): string | undefined =>
  new RegExp(`^\\s*${key}\\s*=\\s*"([^"]*)"`, 'm').exec(body)?.[1];

/** The import of the project's Prisma client from a file in `folder`: a file of the generator's output, or the package. */
export function clientImport({ at, blocks }: Schema, folder: string, extension: string): string {
  const generators = blocks.filter(({ kind }) => kind === 'generator');
  const [generator] = generators.filter((each) =>
    /^prisma-client(?:-js)?$/.test(valueOf(each, 'provider') ?? ''),
  );
  if (!generator) {
    throw new UsageError(`no generator of ${at} has the provider prisma-client or prisma-client-js`);
  }
  const isOlder = valueOf(generator, 'provider') === 'prisma-client-js';
  const output = valueOf(generator, 'output');
  if (output === undefined && isOlder) return '@prisma/client';
  if (output === undefined) throw new UsageError(`generator ${generator.name} of ${at} has no output`);
  // The older generator makes a folder that is a package, of JavaScript.
  const file = isOlder ? (extension === '' ? '' : 'index.js') : `client${extension}`;
  const client = path.join(path.resolve(path.dirname(generator.file), output), file);
  const relative = path.relative(folder, client).replaceAll(path.sep, '/');
  return relative.startsWith('../') ? relative : `./${relative}`;
}
