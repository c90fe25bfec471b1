import { build as bundle } from 'esbuild';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { buffer } from 'node:stream/consumers';
import yazl from 'yazl';
import { wasmFile } from './wasm-file.ts';

/** One built function and its zip. */
export interface BuiltFunction {
  name: string;
  zip: string;
  bytes: number;
}

/** A file of a zip; its path is relative to the zip's root. */
interface ZipEntry {
  path: string;
  content: Buffer;
}

const root = path.resolve(import.meta.dirname, '..');
const dist = path.join(root, 'dist');

/**
 * The same sources give the same bytes, so a deploy uploads only what changed. A zip's DOS time is local time: with
 * local midnight, and without the UTC time that yazl adds beside it, the bytes are the same in every time zone.
 */
const ZIP_TIME = { mtime: new Date(1980, 0, 1), forceDosTimestamp: true };

/** Dependencies written as CommonJS (pg) call `require`, which an ES module does not have. */
const REQUIRE_BANNER =
  "import{createRequire as __createRequire}from'node:module';const require=__createRequire(import.meta.url);";

/** Folders that a function reads at run time, packed where they lie in the repository. */
const EXTRA_FOLDERS: Readonly<Record<string, string>> = { migrate: 'prisma/migrations' };

/** The functions that serverless.yml deploys: it names a zip for each, and that zip's name is the folder's. */
export async function functionNames(): Promise<string[]> {
  const config = await readFile(path.join(root, 'serverless.yml'), 'utf8');
  return [...config.matchAll(/artifact: dist\/([\w-]+)\.zip/g)].map(([, name = '']) => name);
}

/**
 * Bundles functions and writes `dist/<name>.zip` for each; the handler is `functions/<name>/handler.handler`. Beside
 * it, `dist/<name>.meta.json` is esbuild's account of what went in and how much of it.
 *
 * A zip keeps the repository's layout and needs nothing but Node: the AWS SDK is inside at the locked version. It
 * appears at its place in one step, so a reader sees the old one or the new one. White space goes, a thirtieth of the
 * zip; names stay, because stack traces need them.
 *
 * @param names folders below `functions/`; all that serverless.yml deploys when left out.
 * @throws when a function has no handler.ts, or with esbuild's messages when its code does not bundle.
 */
export async function build(names?: string[]): Promise<BuiltFunction[]> {
  await mkdir(dist, { recursive: true });
  return Promise.all((names ?? (await functionNames())).map(buildFunction));
}

async function buildFunction(name: string): Promise<BuiltFunction> {
  const folder = `functions/${name}`;
  if (!existsSync(path.join(root, folder, 'handler.ts'))) throw new Error(`${folder}/handler.ts is missing`);

  const { outputFiles, metafile } = await bundle({
    absWorkingDir: root,
    entryPoints: [`${folder}/handler.ts`],
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    write: false,
    bundle: true,
    platform: 'node',
    target: 'node24',
    format: 'esm',
    // What is loaded on demand (the EventBridge client, what opens a secret) is a file of its own, read by nobody else.
    splitting: true,
    chunkNames: '[name]-[hash]',
    minifyWhitespace: true,
    minifySyntax: true,
    lineLimit: 200,
    alias: { '@aws-sdk/credential-provider-node': path.join(root, 'infra/lambda-credentials.ts') },
    // The SDK's ES modules instead of its CommonJS, so that what a function does not use stays out: 50 KiB of the zip.
    mainFields: ['module', 'main'],
    assetNames: '[name]',
    banner: { js: REQUIRE_BANNER },
    plugins: [wasmFile],
    metafile: true,
    legalComments: 'none',
    logLevel: 'warning',
  });
  const entries = [
    ...outputFiles.map((file) => ({
      path: path.relative(root, file.path),
      content: Buffer.from(file.contents),
    })),
    ...(await readFolder(EXTRA_FOLDERS[name])),
  ];
  const zip = path.join(dist, `${name}.zip`);
  const content = await zipOf(entries);
  await writeWhole(zip, content);
  await writeWhole(path.join(dist, `${name}.meta.json`), JSON.stringify(metafile));
  return { name, zip, bytes: content.length };
}

async function readFolder(folder: string | undefined): Promise<ZipEntry[]> {
  if (folder === undefined) return [];
  const found = await readdir(path.join(root, folder), { recursive: true, withFileTypes: true });
  return Promise.all(
    found
      .filter((entry) => entry.isFile())
      .map((entry) => path.join(entry.parentPath, entry.name))
      .map(async (file) => ({ path: path.relative(root, file), content: await readFile(file) })),
  );
}

async function zipOf(entries: ZipEntry[]): Promise<Buffer> {
  const zip = new yazl.ZipFile();
  for (const { path: name, content } of entries.toSorted((a, b) => (a.path < b.path ? -1 : 1))) {
    zip.addBuffer(content, name, { ...ZIP_TIME, mode: 0o644, compressionLevel: 9 });
  }
  zip.end();
  return buffer(zip.outputStream);
}

async function writeWhole(file: string, content: Buffer | string): Promise<void> {
  const unfinished = `${file}.${process.pid}`;
  await writeFile(unfinished, content);
  await rename(unfinished, file);
}

if (import.meta.main) {
  for (const { name, bytes } of await build(process.argv.length > 2 ? process.argv.slice(2) : undefined)) {
    console.info(`${name.padEnd(8)} ${Math.ceil(bytes / 1024)} KiB`);
  }
}
