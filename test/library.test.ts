// The library in a project that has Prisma and the Serverless Framework already: installed as it is packed, set up by
// `outbox init`, compiled, migrated, packaged, and run.

import { build } from 'esbuild';
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import { deployMigrations } from '../functions/migrate/migrate.ts';
import { buildLibrary } from '../infra/library/build.ts';
import { init } from '../infra/library/init.ts';
import { openSchemaEngine } from '../infra/schema-engine.ts';
import { afterwards } from './support/cleanup.ts';
import { createDatabase } from './support/database.ts';
import { startScriptedSqs } from './support/scripted-sqs.ts';

const root = path.resolve(import.meta.dirname, '..');
const run = promisify(execFile);
const node = (cwd: string, args: string[], env: Record<string, string> = {}) =>
  run(process.execPath, ['--disable-warning=ExperimentalWarning', ...args], {
    cwd,
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], ...env },
  }).catch((error: Error & { stdout: string; stderr: string }) => {
    throw new Error(`${error.message}\n${error.stdout}\n${error.stderr}`);
  });

const write = async (directory: string, files: Record<string, string>) => {
  for (const [name, text] of Object.entries(files)) {
    await mkdir(path.dirname(path.join(directory, name)), { recursive: true });
    await writeFile(path.join(directory, name), text);
  }
};
const temporary = async () => {
  const directory = await mkdtemp(path.join(tmpdir(), 'outbox-library-'));
  afterwards(() => rm(directory, { recursive: true, force: true }));
  return directory;
};

const GENERATOR = `generator client {
  provider            = "prisma-client"
  output              = "../src/generated"
  importFileExtension = "ts"
}`;
const datasource = (provider = 'postgresql') => `datasource db {\n  provider = "${provider}"\n}`;
const GREETING = 'model Greeting {\n  name String @id\n\n  @@map("greeting")\n}';
const schemaOf = (...parts: string[]) => `${parts.join('\n\n')}\n`;

const PROJECT = {
  'package.json': JSON.stringify({ name: 'greetings', type: 'module' }),
  'tsconfig.json': JSON.stringify({
    compilerOptions: {
      target: 'es2024',
      module: 'nodenext',
      strict: true,
      noUncheckedIndexedAccess: true,
      exactOptionalPropertyTypes: true,
      verbatimModuleSyntax: true,
      allowImportingTsExtensions: true,
      skipLibCheck: true,
      types: ['node'],
      noEmit: true,
    },
    include: ['src/main.ts', 'outbox'],
  }),
  'prisma/schema.prisma': schemaOf(GENERATOR, datasource(), GREETING),
  'prisma.config.ts':
    "import { defineConfig } from 'prisma/config';\nexport default defineConfig({ schema: 'prisma/schema.prisma' });\n",
  'prisma/migrations/20250101000000_greeting/migration.sql':
    'CREATE TABLE "greeting" ("name" TEXT NOT NULL, CONSTRAINT "greeting_pkey" PRIMARY KEY ("name"));\n',
  'serverless.yml': `service: greetings
frameworkVersion: ^4.3.1
configValidationMode: error
provider:
  name: aws
  runtime: nodejs24.x
  region: eu-central-1
  environment:
    DATABASE_URL: postgresql://127.0.0.1/greetings
package:
  patterns: ['!node_modules/**']
functions:
  - \${file(outbox/serverless.yml):functions}
  - greet: { handler: src/main.greet }
resources:
  - \${file(outbox/serverless.yml):resources}
`,
  // A business row and its event in one transaction, the root client refused by the types.
  'src/main.ts': `import { databaseAdapter } from 'prisma-outbox-relay';
import { recordEvents } from '../outbox/events.ts';
import { PrismaClient } from './generated/client.ts';

const databaseUrl = process.env['DATABASE_URL'] ?? '';
const prisma = new PrismaClient({ adapter: databaseAdapter({ databaseUrl, poolSize: 1 }) });

export async function greet(name: string): Promise<string[]> {
  return prisma.$transaction(async (tx) => {
    await tx.greeting.create({ data: { name } });
    return recordEvents(tx, [{ type: 'example.happened', payload: { name } }]);
  });
}
// @ts-expect-error the root client does not type-check
export const wrong = () => recordEvents(prisma, []);
`,
  // What Lambda does: the handler by its name, an event, a context.
  'call.ts': `const [file = '', name = '', event = ''] = process.argv.slice(2);
const module = await import(file);
const context = { getRemainingTimeInMillis: () => 20_000, awsRequestId: 'r', functionName: 'f', memoryLimitInMB: '512' };
const result = await module[name](JSON.parse(event), context);
console.log('ANSWER ' + JSON.stringify(result));
process.exit();
`,
};

let packed: string;
beforeAll(async () => {
  packed = await buildLibrary(path.join(await temporary(), 'library'));
}, 60_000);

/** A project with the library in its node_modules, as npm would unpack it; what it depends on is this repository's. */
async function startProject(): Promise<string> {
  const directory = await temporary();
  await write(directory, PROJECT);
  const modules = path.join(directory, 'node_modules');
  await mkdir(path.join(modules, 'prisma-outbox-relay'), { recursive: true });
  await run('tar', ['-xzf', packed, '--strip-components=1', '-C', path.join(modules, 'prisma-outbox-relay')]);
  for (const name of await readdir(path.join(root, 'node_modules')))
    await symlink(path.join(root, 'node_modules', name), path.join(modules, name));
  return directory;
}

const outbox = (directory: string, args: string[], env: Record<string, string> = {}) =>
  node(directory, ['node_modules/prisma-outbox-relay/infra/library/bin.js', ...args], env);

test('a project of its own: set up, compiled, migrated, and an event from its transaction to its effect', async () => {
  const directory = await startProject();
  const { stdout } = await outbox(directory, ['init']);
  expect(stdout).toMatch(/^added to prisma\/schema\.prisma$/m);
  expect(stdout).toMatch(/^written {2}outbox\/relay\.ts$/m);
  expect((await outbox(directory, ['init'])).stdout).not.toMatch(/^(?:added to|written)/m);

  await node(directory, ['node_modules/prisma/build/index.js', 'generate'], {
    PRISMA_SCHEMA_ENGINE_BINARY: '/bin/false',
    PRISMA_HIDE_UPDATE_MESSAGE: '1',
  });
  const tsc = ['node_modules/typescript/bin/tsc', '-p', '.'];
  await node(directory, tsc);
  // Others' declarations have faults of their own; the library's have none.
  const strictly = await node(directory, [...tsc, '--skipLibCheck', 'false']).catch(String);
  expect(strictly).not.toMatch(/prisma-outbox-relay\S*: error/);

  const db = await createDatabase({ migrated: false });
  const paths = {
    schema: path.join(directory, 'prisma/schema.prisma'),
    migrations: path.join(directory, 'prisma/migrations'),
  };
  const applied = await deployMigrations({ connectionString: db.url, directory: paths.migrations });
  expect(applied).toEqual([
    '20250101000000_greeting',
    '20261130000000_outbox',
    '20261201000000_outbox_parked',
  ]);
  expect(await (await openSchemaEngine(db.url, paths)).missingSql()).toBeNull();

  const sqs = await startScriptedSqs({ queues: { example: {} } });
  const call = async (file: string, name: string, event: unknown, env: Record<string, string> = {}) => {
    const args = ['call.ts', file, name, JSON.stringify(event)];
    const { stdout: output } = await node(directory, args, { ...sqs.env, DATABASE_URL: db.url, ...env });
    return JSON.parse(/^ANSWER (.*)$/m.exec(output)?.[1] ?? 'null') as unknown;
  };
  const [id] = (await call('./src/main.ts', 'greet', 'Ada')) as string[];
  const destinations = { example: { kind: 'sqs', queueUrl: sqs.queueUrl('example') } };
  const ticked = await call(
    './outbox/relay.ts',
    'handler',
    {},
    { OUTBOX_DESTINATIONS: JSON.stringify(destinations) },
  );
  expect(ticked).toMatchObject({ claimed: 1, acknowledged: 1 });
  const [message] = sqs.stored('example');
  expect(JSON.parse(message?.body ?? '')).toMatchObject({
    id,
    type: 'example.happened',
    data: { name: 'Ada' },
  });

  const record = {
    messageId: 'm1',
    receiptHandle: 'r1',
    body: message?.body,
    attributes: {},
    eventSourceARN: 'arn:x',
  };
  const consume = () =>
    call(
      './outbox/consumer.ts',
      'handler',
      { Records: [record] },
      { OUTBOX_QUEUE_URL: sqs.queueUrl('example') },
    );
  expect(await consume()).toEqual({ batchItemFailures: [] });
  expect(await consume()).toEqual({ batchItemFailures: [] });
  expect(await db.sql('SELECT consumer, event_id::text AS id FROM applied_event')).toEqual([
    { consumer: 'example', id },
  ]);
  expect(await call('./outbox/gauge.ts', 'handler', {})).toMatchObject({ backlog: 0, parked: 0 });
  expect(await call('./outbox/prune.ts', 'handler', {})).toEqual({ outbox: 0, ledger: 0 });
  const asked = await outbox(directory, ['where', id ?? ''], { DATABASE_URL: db.url });
  expect(asked.stdout).toMatch(/state +PUBLISHED[^]*appliedBy +example/);
  await expect(outbox(directory, ['wher'])).rejects.toThrow(
    /no command "wher"; expected one of where, .*init/,
  );
}, 120_000);

test('a producer that is bundled brings neither the AWS SDK nor the relay, also as CommonJS', async () => {
  const directory = await startProject();
  await outbox(directory, ['init']);
  const { metafile } = await build({
    absWorkingDir: directory,
    entryPoints: ['outbox/events.ts'],
    outfile: 'events.cjs',
    bundle: true,
    platform: 'node',
    metafile: true,
  });
  const taken = Object.values(metafile.outputs).flatMap(({ inputs }) =>
    Object.entries(inputs).flatMap(([file, { bytesInOutput }]) => (bytesInOutput > 0 ? [file] : [])),
  );
  expect(taken.filter((file) => /@aws-sdk|@middy|powertools|\/relay\/|\/consumer\//.test(file))).toEqual([]);
  const { stdout } = await node(directory, ['-p', 'typeof require("./events.cjs").recordEvents']);
  expect(stdout).toBe('function\n');
}, 120_000);

test('what init writes for serverless.yml packages, and the doctor finds that its numbers agree', async () => {
  const directory = await startProject();
  await outbox(directory, ['init']);
  await node(directory, [path.join(root, 'node_modules/osls/bin/serverless.js'), 'package']);
  const template = JSON.parse(
    await readFile(path.join(directory, '.serverless/cloudformation-template-update-stack.json'), 'utf8'),
  ) as { Resources: Record<string, { Type: string }> };
  const functions = Object.entries(template.Resources).filter(
    ([, { Type }]) => Type === 'AWS::Lambda::Function',
  );
  expect(functions.map(([id]) => id).toSorted()).toEqual(
    ['ExampleConsumer', 'Greet', 'OutboxGauge', 'OutboxPrune', 'OutboxRelay'].map(
      (name) => `${name}LambdaFunction`,
    ),
  );
  const { stdout } = await outbox(directory, ['doctor', '--max-connections', '100']);
  expect(stdout).toBe('The settings agree.\n');
}, 120_000);

const clientIn = async (directory: string) =>
  /from '([^']*(?:client|generated)[^']*)'/.exec(
    await readFile(path.join(directory, 'outbox/relay.ts'), 'utf8'),
  )?.[1];
const compiler = (options: object) => JSON.stringify({ compilerOptions: options });

describe('init', () => {
  test.each<[string, Record<string, string>, string]>([
    [
      'the older generator',
      {
        'prisma/schema.prisma': schemaOf(
          'generator client {\n  provider = "prisma-client-js"\n}',
          datasource(),
        ),
      },
      '@prisma/client',
    ],
    [
      'the older generator with a folder',
      {
        'prisma/schema.prisma': schemaOf(
          'generator client {\n  provider = "prisma-client-js"\n  output = "../generated"\n}',
          datasource(),
        ),
      },
      '../generated',
    ],
    [
      'a bundler',
      {
        'prisma/schema.prisma': schemaOf(GENERATOR, datasource()),
        'tsconfig.json': compiler({ moduleResolution: 'bundler' }),
      },
      '../src/generated/client',
    ],
    [
      'nodenext',
      {
        'prisma/schema.prisma': schemaOf(GENERATOR, datasource()),
        'tsconfig.json': compiler({ module: 'NodeNext' }),
      },
      '../src/generated/client.js',
    ],
    [
      'a folder of schemas',
      { 'prisma/schema/main.prisma': schemaOf(GENERATOR.replace('../src', '../../src'), datasource()) },
      '../src/generated/client',
    ],
  ])('finds the client of %s', async (_, files, client) => {
    const directory = await temporary();
    await write(directory, files);
    init(directory);
    expect(await clientIn(directory)).toBe(client);
    expect((await readdir(path.join(directory, 'prisma/migrations'))).toSorted()).toEqual([
      '20261130000000_outbox',
      '20261201000000_outbox_parked',
      'migration_lock.toml',
    ]);
  });

  test('keeps partial indexes where the project knows them, and plain ones where it does not', async () => {
    const directory = await temporary();
    await write(directory, {
      'prisma/schema.prisma': schemaOf(
        GENERATOR.replace('}', '  previewFeatures = ["partialIndexes"]\n}'),
        datasource(),
      ),
    });
    init(directory);
    expect(await readFile(path.join(directory, 'prisma/schema.prisma'), 'utf8')).toContain(
      'where: raw("state =',
    );
    const other = await temporary();
    await write(other, { 'prisma/schema.prisma': schemaOf(GENERATOR, datasource()) });
    init(other);
    expect(await readFile(path.join(other, 'prisma/schema.prisma'), 'utf8')).not.toContain('where:');
  });

  test('keeps what is there', async () => {
    const directory = await temporary();
    await write(directory, { 'prisma/schema.prisma': schemaOf(datasource()), 'outbox/events.ts': 'mine' });
    expect(init(directory)).toContain('kept     outbox/events.ts');
    expect(await readFile(path.join(directory, 'outbox/events.ts'), 'utf8')).toBe('mine');
  });

  test.each<[string, Record<string, string>, RegExp]>([
    ['no schema', {}, /no Prisma schema here \(looked for prisma\/schema\.prisma, .*--schema PATH/],
    [
      'another database',
      { 'prisma/schema.prisma': schemaOf(datasource('mysql')) },
      /needs PostgreSQL; .* has mysql/,
    ],
  ])('refuses %s, and writes nothing', async (_, files, problem) => {
    const directory = await temporary();
    await write(directory, files);
    expect(() => init(directory)).toThrow(problem);
    expect(await readdir(directory)).toEqual(Object.keys(files).map((name) => name.split('/')[0]));
  });
});
