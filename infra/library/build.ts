// `npm run library`: what a project of your own installs, in dist/library and packed beside it.

import { execFile } from 'node:child_process';
import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const root = path.resolve(import.meta.dirname, '../..');
/** What the library has beside its code, where it lies in the repository. */
const COPIED = ['LICENSE', 'infra/library/files', 'prisma/schema.prisma', 'prisma/migrations'];
/** The project has these already; they must be the same copies for both. */
const PEERS = ['@prisma/adapter-pg', '@prisma/client', 'pg'];
/** Types that the library's own name. */
const TYPES = ['@types/aws-lambda', '@types/pg'];

type Manifest = Record<'name' | 'version' | 'description' | 'license', string> &
  Record<'dependencies' | 'devDependencies' | 'engines', Record<string, string>>;

/**
 * Compiles the engine and the `outbox` command to JavaScript with declarations, and packs them for npm.
 *
 * @param folder where to; everything in it is replaced
 * @returns the packed file
 */
export async function buildLibrary(folder = path.join(root, 'dist/library')): Promise<string> {
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  await run(process.execPath, [
    path.join(root, 'node_modules/typescript/bin/tsc'),
    '-p',
    import.meta.dirname,
    '--outDir',
    folder,
  ]);
  for (const name of COPIED) await cp(path.join(root, name), path.join(folder, name), { recursive: true });
  await cp(path.join(root, 'docs/library.md'), path.join(folder, 'README.md'));
  const own = JSON.parse(await readFile(path.join(root, 'package.json'), 'utf8')) as Manifest;
  await writeFile(
    path.join(folder, 'package.json'),
    JSON.stringify(manifest(own, await importedBy(folder)), null, 2),
  );
  const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', path.dirname(folder)], {
    cwd: folder,
  });
  // A list, or an object by name: npm's releases differ.
  const [packed] = Object.values(JSON.parse(stdout) as Record<string, { filename: string }>);
  return path.join(path.dirname(folder), packed?.filename ?? '');
}

function manifest({ dependencies, devDependencies, ...own }: Manifest, imported: ReadonlySet<string>) {
  const versions = { ...devDependencies, ...dependencies };
  const ranges = (names: readonly string[]) =>
    Object.fromEntries(names.map((name) => [name, `^${versions[name]}`]));
  return {
    name: own.name,
    version: own.version,
    description: own.description,
    license: own.license,
    engines: own.engines,
    type: 'module',
    // So that a bundler takes what is used, and nothing else.
    sideEffects: false,
    exports: { '.': { types: './functions/index.d.ts', default: './functions/index.js' } },
    bin: { outbox: 'infra/library/bin.js' },
    dependencies: ranges([...imported, ...TYPES].filter((name) => !PEERS.includes(name)).toSorted()),
    peerDependencies: ranges(PEERS),
  };
}

/** The packages that the compiled files import. */
async function importedBy(folder: string): Promise<Set<string>> {
  const names = new Set<string>();
  for (const file of await readdir(folder, { recursive: true })) {
    if (!/\.(?:d\.ts|js)$/.test(file)) continue;
    const text = await readFile(path.join(folder, file), 'utf8');
    for (const [, name = ''] of text.matchAll(
      /(?:from |import\()'((?:@[^/']+\/)?[^./'][^/':]*)(?:\/[^']*)?'/g,
    )) {
      if (name !== 'aws-lambda') names.add(name);
    }
  }
  return names;
}

if (import.meta.main) console.info(await buildLibrary());
