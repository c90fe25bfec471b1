import { unzipSync } from 'fflate';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { isBuiltin } from 'node:module';
import path from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, expect, test } from 'vitest';
import type { Metafile } from 'esbuild';
import { functionNames } from '../infra/build.ts';
import packageJson from '../package.json' with { type: 'json' };
import { packaged, PACKAGING_TIMEOUT_MS, type Packaged } from './support/packaged.ts';
import { unpackFunction } from './support/unpacked.ts';

const WASM = 'query_compiler_small_bg.postgresql.wasm';
const WASM_MAGIC = '\0asm';

interface Zip {
  bytes: number;
  files: Record<string, Uint8Array>;
  metafile: Metafile;
}
const zips = new Map<string, Zip>();
let template: Packaged;

beforeAll(async () => {
  template = await packaged();
  const dist = path.join(template.directory, 'dist');
  for (const name of await functionNames()) {
    const zip = await readFile(path.join(dist, `${name}.zip`));
    const metafile = JSON.parse(await readFile(path.join(dist, `${name}.meta.json`), 'utf8')) as Metafile;
    zips.set(name, { bytes: zip.length, files: unzipSync(zip), metafile });
  }
}, PACKAGING_TIMEOUT_MS);

const filesOf = (name: string): Zip['files'] => zips.get(name)?.files ?? {};
const textOf = (name: string, file: string): string => Buffer.from(filesOf(name)[file] ?? []).toString();
/** All code of a zip: the handler's file and those it loads on demand. */
const codeOf = (name: string): string =>
  Object.keys(filesOf(name))
    .filter((file) => file.endsWith('.mjs'))
    .map((file) => textOf(name, file))
    .join('\n');

test('one zip for each function of the template', async () => {
  expect(await functionNames()).toEqual(['relay', 'prune', 'gauge', 'migrate', 'orders', 'stock', 'history']);
  for (const name of await functionNames()) {
    expect(Object.keys(filesOf(name))).toContain(`functions/${name}/handler.mjs`);
  }
});

async function buildAt(TZ: string): Promise<Buffer> {
  const env = { ...process.env, TZ };
  await promisify(execFile)(process.execPath, ['infra/build.ts', 'migrate'], { env });
  return readFile('dist/migrate.zip');
}

test('the same sources give the same bytes, in any time zone', async () => {
  const first = await buildAt('Asia/Kolkata');
  expect(first.equals(await buildAt('America/New_York'))).toBe(true);
});

test('a zip needs nothing but Node (E5)', () => {
  for (const [name, { metafile }] of zips) {
    const imports = Object.values(metafile.outputs).flatMap((output) => output.imports);
    const missing = imports.filter((found) => found.external && !isBuiltin(found.path));
    // pg looks for its native twin only when it is asked for it, and lives without.
    expect(
      missing.filter((found) => found.path !== 'pg-native'),
      name,
    ).toEqual([]);
  }
});

test.each(['relay', 'orders', 'stock', 'history'])(
  '%s brings the AWS SDK at the locked version (E5)',
  (name) => {
    expect(Object.keys(zips.get(name)?.metafile.inputs ?? {})).toContainEqual(
      expect.stringContaining('node_modules/@aws-sdk/client-sqs/'),
    );
    expect(codeOf(name)).toContain(packageJson.dependencies['@aws-sdk/client-sqs']);
  },
);

test.each(['relay', 'orders', 'stock', 'history', 'prune', 'gauge'])(
  "%s brings Prisma's query compiler as a file",
  (name) => {
    const wasm = filesOf(name)[`functions/${name}/${WASM}`];
    expect(Buffer.from(wasm ?? []).toString('latin1', 0, WASM_MAGIC.length)).toBe(WASM_MAGIC);
    // The same four bytes in base64: the literal that the file takes the place of.
    expect(codeOf(name)).not.toContain('"AGFzbQ');
  },
);

test('migrate brings the migrations, at their place in the repository', async () => {
  for (const name of ['20261130000000_outbox', '20261130000100_example']) {
    const file = `prisma/migrations/${name}/migration.sql`;
    expect(textOf('migrate', file)).toBe(await readFile(file, 'utf8'));
  }
});

// In decimal megabytes, the smaller ones.
test.each([
  ['relay', 1_300_000],
  ['stock', 1_000_000],
  ['history', 1_000_000],
  ['orders', 1_000_000],
  ['prune', 1_000_000],
  ['gauge', 1_000_000],
  ['migrate', 200_000],
])('%s stays under %d bytes', (name, limit) => {
  expect(zips.get(name)?.bytes).toBeLessThan(limit);
});

/** The handler, what it loads on demand, Prisma's compiler, and the migrations where they are applied. */
const EXPECTED =
  /^functions\/(\w+)\/(handler\.mjs|[\w.-]+-[0-9A-Z]{8}\.mjs|query_compiler_small_bg\.postgresql\.wasm)$/;
const MIGRATIONS = /^prisma\/migrations\/(migration_lock\.toml|\d{14}_\w+\/migration\.sql)$/;

test('a zip has no file that is not expected there', () => {
  expect(zips.size).toBe(7);
  for (const [name] of zips) {
    const others = Object.keys(filesOf(name)).filter(
      (file) => EXPECTED.exec(file)?.[1] !== name && !(name === 'migrate' && MIGRATIONS.test(file)),
    );
    expect(others, name).toEqual([]);
  }
});

test('the EventBridge client is a file that only a bus makes the relay read', () => {
  const outputs: Metafile['outputs'] = zips.get('relay')?.metafile.outputs ?? {};
  const handler = outputs['functions/relay/handler.mjs'];
  const atOnce = new Set<string>(['functions/relay/handler.mjs']);
  for (const file of atOnce) {
    for (const found of outputs[file]?.imports ?? []) {
      if (found.kind === 'import-statement' && !found.external) atOnce.add(found.path);
    }
  }
  const bus = (file: string) =>
    Object.keys(outputs[file]?.inputs ?? {}).some((input) => input.includes('client-eventbridge/'));
  expect(handler).toBeDefined();
  expect(Object.keys(outputs).filter(bus)).toHaveLength(1);
  expect([...atOnce].filter(bus)).toEqual([]);
});

test.each(['relay', 'prune', 'gauge', 'migrate', 'orders', 'stock', 'history'])(
  '%s starts cold with its own variables and no file but its own, and takes at most two parameters (E4, E5)',
  async (name) => {
    const folder = await unpackFunction(name);
    const script = `
      const { handler } = await import(${JSON.stringify(path.join(folder, `functions/${name}/handler.mjs`))});
      process.stdout.write('parameters: ' + handler.length);
      process.exit();`;
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['--permission', `--allow-fs-read=${folder}`, '--input-type=module', '--eval', script],
      { cwd: folder, env: { ...variablesOf(name), AWS_REGION: 'eu-central-1' } },
    );
    expect(stdout).toMatch(/parameters: [012]$/);
  },
);

const urlOf = (queue: string): string => `https://sqs.eu-central-1.amazonaws.com/000000000000/${queue}`;

/** The template's variables with stand-ins for what a deploy fills in. */
function variablesOf(name: string): Record<string, string> {
  const lambda = template.resources[`${name.charAt(0).toUpperCase()}${name.slice(1)}LambdaFunction`];
  const { Variables: variables } = (lambda?.Properties['Environment'] ?? {}) as {
    Variables?: Record<string, string | { Ref: string } | { 'Fn::Sub': string }>;
  };
  const deployed = Object.entries(variables ?? {}).map(([key, value]): [string, string] => {
    if (typeof value === 'string')
      return [key, value.replace(/^{{resolve:.*/, 'postgresql://127.0.0.1:1/none')];
    if ('Ref' in value) return [key, urlOf(value.Ref)];
    return [key, value['Fn::Sub'].replaceAll(/\$\{(\w+)\}/g, (_, queue: string) => urlOf(queue))];
  });
  return Object.fromEntries(deployed);
}
