// What `npm run package` makes, for the tests that read the template or run the zips.

import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { cp, mkdir, readdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { packagedTemplate } from '../../infra/template-check.ts';
import type { Template } from '../../infra/template/document.ts';
import { until } from './wait.ts';

/** A resource of the CloudFormation template. */
export interface Resource {
  Type: string;
  Properties: Record<string, unknown>;
}

export interface Packaged {
  /** Laid out like a checkout after packaging: `.serverless/*.json` and `dist/*.zip`. Shared: read only. */
  directory: string;
  /** The template that a deploy of the stage `prod` would apply. */
  template: Template;
  /** Its resources. */
  resources: Record<string, Resource>;
  /** Everything that the packaging wrote to its terminal. */
  output: string;
}

const root = path.resolve(import.meta.dirname, '../..');
const shelf = path.join(root, '.local/packaged');
const INPUTS = ['functions', 'infra', 'prisma', 'serverless.yml', 'package-lock.json'];
const SHELF_LIFE_MS = 3_600_000;
/** For the hook that calls `packaged()`: seconds on a quiet machine, more where every core is busy. */
export const PACKAGING_TIMEOUT_MS = 120_000;

/** Packages the service, with no AWS variable set; once for each state of the sources, however many tests ask. */
export async function packaged(): Promise<Packaged> {
  const directory = path.join(shelf, await fingerprint());
  if (!existsSync(directory)) await packageOnce(directory);
  const template = await packagedTemplate(directory);
  const resources = template.Resources as Packaged['resources'];
  return {
    directory,
    template,
    resources,
    output: await readFile(path.join(directory, 'output.txt'), 'utf8'),
  };
}

/**
 * Runs `serverless package` in a copy of the sources at `directory`, so that runs at the same time do not share
 * osls's working folder. Throws with its output when it refuses.
 */
export async function packageCopy(directory: string, ...args: string[]): Promise<string> {
  await mkdir(directory, { recursive: true });
  for (const input of [...INPUTS, 'package.json']) {
    await cp(path.join(root, input), path.join(directory, input), { recursive: true });
  }
  await symlink(path.join(root, 'node_modules'), path.join(directory, 'node_modules'));
  return osls(directory, args);
}

async function osls(cwd: string, args: string[]): Promise<string> {
  const serverless = path.join(root, 'node_modules/osls/bin/serverless.js');
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [serverless, 'package', ...args], {
    cwd,
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'] },
  });
  return stdout + stderr;
}

/**
 * The template with other params, packaged in a folder of its own at `directory`. The zips are those of `packaged()`:
 * building them again would tell nothing and take most of the time.
 */
export async function packageOption(directory: string, ...args: string[]): Promise<Template> {
  const { directory: built } = await packaged();
  await mkdir(directory, { recursive: true });
  for (const input of ['infra', 'dist', 'package.json'])
    await symlink(path.join(built, input), path.join(directory, input));
  await symlink(path.join(root, 'node_modules'), path.join(directory, 'node_modules'));
  const config = await readFile(path.join(built, 'serverless.yml'), 'utf8');
  await writeFile(path.join(directory, 'serverless.yml'), config.replace(/^plugins:\n(?: +.*\n)+/m, ''));
  await osls(directory, args);
  return packagedTemplate(directory);
}

/** Whoever makes the unfinished folder first does the work; the others wait for the finished one. */
async function packageOnce(directory: string): Promise<void> {
  const unfinished = `${directory}.unfinished`;
  await mkdir(shelf, { recursive: true });
  await clearShelf();
  if (await isFirst(unfinished)) {
    try {
      await writeFile(path.join(unfinished, 'output.txt'), await packageCopy(unfinished, '--stage=prod'));
      await rename(unfinished, directory);
    } finally {
      await rm(unfinished, { recursive: true, force: true });
    }
  } else {
    await until(() => existsSync(directory) || !existsSync(unfinished), {
      within: PACKAGING_TIMEOUT_MS,
      message: 'another test file packages the service',
    });
  }
}

async function isFirst(unfinished: string): Promise<boolean> {
  try {
    await mkdir(unfinished);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

/** Takes away what is old, and what a killed run left unfinished. */
async function clearShelf(): Promise<void> {
  for (const name of await readdir(shelf)) {
    const old = path.join(shelf, name);
    const { mtimeMs } = await stat(old).catch(() => ({ mtimeMs: Date.now() }));
    const lifeMs = name.endsWith('.unfinished') ? PACKAGING_TIMEOUT_MS : SHELF_LIFE_MS;
    if (Date.now() - mtimeMs > lifeMs) await rm(old, { recursive: true, force: true });
  }
}

async function fingerprint(): Promise<string> {
  const hash = createHash('sha256');
  for (const input of INPUTS) {
    for (const file of await filesOf(path.join(root, input))) {
      hash.update(`${path.relative(root, file)}\0`).update(await readFile(file));
    }
  }
  return hash.digest('hex').slice(0, 16);
}

async function filesOf(input: string): Promise<string[]> {
  if ((await stat(input)).isFile()) return [input];
  const found = await readdir(input, { recursive: true, withFileTypes: true });
  return found
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name))
    .toSorted();
}
