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

/** Prisma's command, which must not go and fetch its native engine. */
const prisma = (directory: string, ...args: string[]) =>
  node(directory, ['node_modules/prisma/build/index.js', ...args], {
    PRISMA_SCHEMA_ENGINE_BINARY: '/bin/false',
    PRISMA_HIDE_UPDATE_MESSAGE: '1',
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
      declaration: true,
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
  # Called like one of the service's, and none of it.
  - orders: { handler: src/main.greet }
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
  const again = (await outbox(directory, ['init'])).stdout.trimEnd().split('\n');
  expect(again.every((line) => line.startsWith('kept  '))).toBe(true);
  expect(new Set(again).size).toBe(again.length);

  await prisma(directory, 'generate');
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
    ['ExampleConsumer', 'Greet', 'Orders', 'OutboxGauge', 'OutboxPrune', 'OutboxRelay'].map(
      (name) => `${name}LambdaFunction`,
    ),
  );
  const { stdout } = await outbox(directory, ['doctor', '--max-connections', '100']);
  expect(stdout).toBe('The settings agree.\n');
}, 120_000);

const JS_CLIENT = 'generator client {\n  provider = "prisma-client-js"\n}';
const compiler = (options: object, more: object = {}) =>
  JSON.stringify({ ...more, compilerOptions: options });
const several = (names: string) => datasource().replace('\n}', `\n  schemas = [${names}]\n}`);
const config = (options: object) => `export default ${JSON.stringify(options)};\n`;
const ours = async () => {
  const schema = await readFile(path.join(root, 'prisma/schema.prisma'), 'utf8');
  return (schema.match(/^model (?:OutboxEvent|AppliedEvent) \{$[^]*?^\}$/gm) ?? []).map((model) =>
    model.replaceAll(/, where: raw\("[^"]*"\)/g, ''),
  );
};

/** A project of nothing but these files, whose Prisma is this repository's. */
async function startWith(files: Record<string, string>): Promise<string> {
  const directory = await temporary();
  await write(directory, files);
  await symlink(path.join(root, 'node_modules'), path.join(directory, 'node_modules'));
  return directory;
}
const textIn = (directory: string, file: string) => readFile(path.join(directory, file), 'utf8');
const clientIn = async (directory: string, file = 'outbox/relay.ts') =>
  /PrismaClient \} from '([^']*)'/.exec(await textIn(directory, file))?.[1];

describe('init', () => {
  const plain = schemaOf(GENERATOR, datasource());

  test.each<[string, Record<string, string>, string]>([
    ['the older generator', { 'prisma/schema.prisma': schemaOf(JS_CLIENT, datasource()) }, '@prisma/client'],
    [
      'the older generator with a folder',
      {
        'prisma/schema.prisma': schemaOf(JS_CLIENT.replace('\n}', '\n  output = "../made"\n}'), datasource()),
      },
      '../made',
    ],
    [
      'a schema that has other generators too',
      {
        'prisma/schema.prisma': schemaOf(
          'generator zod {\n  provider = "prisma-zod"\n  output = "../zod"\n}',
          plain,
        ),
      },
      '../src/generated/client',
    ],
    [
      'a schema with Windows line ends',
      { 'prisma/schema.prisma': plain.replaceAll('\n', '\r\n') },
      '../src/generated/client',
    ],
    [
      'a bundler',
      { 'prisma/schema.prisma': plain, 'tsconfig.json': compiler({ moduleResolution: 'bundler' }) },
      '../src/generated/client',
    ],
    [
      'nodenext',
      { 'prisma/schema.prisma': plain, 'tsconfig.json': compiler({ module: 'NodeNext' }) },
      '../src/generated/client.js',
    ],
    [
      'the older generator with a folder, under nodenext',
      {
        'prisma/schema.prisma': schemaOf(JS_CLIENT.replace('\n}', '\n  output = "../made"\n}'), datasource()),
        'tsconfig.json': compiler({ module: 'nodenext' }),
      },
      '../made/index.js',
    ],
    [
      'a client beside the functions',
      { 'prisma/schema.prisma': schemaOf(GENERATOR.replace('../src/generated', '../outbox'), datasource()) },
      './client',
    ],
    [
      'a client below them',
      { 'prisma/schema.prisma': schemaOf(GENERATOR.replace('../src', '../outbox'), datasource()) },
      './generated/client',
    ],
    [
      'names and texts that Prisma allows',
      {
        'prisma/schema.prisma': schemaOf(
          GENERATOR.replace('generator client', 'generator prisma-client').replace('../src', '..//src'),
          'model A {\n  id String @id @default("/*")\n}',
          datasource().replace('datasource db', 'datasource dbé'),
          'model B {\n  id String @id @default("*/5 * * * *")\n}',
        ),
      },
      '../src/generated/client',
    ],
    [
      'a compiler configured elsewhere',
      {
        'prisma/schema.prisma': plain,
        'tsconfig.json': compiler({}, { extends: './base.json' }),
        'base.json': compiler({ module: 'node20' }),
      },
      '../src/generated/client.js',
    ],
  ])('finds the client of %s', async (_, files, client) => {
    const directory = await startWith(files);
    await init(directory);
    expect(await clientIn(directory)).toBe(client);
    expect((await readdir(path.join(directory, 'prisma/migrations'))).toSorted()).toEqual([
      '20261130000000_outbox',
      '20261201000000_outbox_parked',
      'migration_lock.toml',
    ]);
  });

  test('looks where prisma.config.ts says, and writes there', async () => {
    const directory = await startWith({
      'prisma.config.ts': config({ schema: 'db/models', migrations: { path: 'db/history' } }),
      'db/models/generators/client.prisma': GENERATOR.replace('../src', '../../../src'),
      'db/models/base/datasource.prisma': datasource(),
    });
    const done = await init(directory, ['--folder', 'src/outbox']);
    expect(done).toContain('written  db/models/outbox.prisma');
    expect(done).toContain('written  db/history/20261130000000_outbox');
    expect(await clientIn(directory, 'src/outbox/relay.ts')).toBe('../generated/client');
    expect(await textIn(directory, 'src/outbox/serverless.yml')).toContain(
      'handler: src/outbox/relay.handler',
    );
    expect(await init(directory, ['--folder', 'src/outbox'])).toContain('kept     db/models/outbox.prisma');
  });

  test('a folder of schemas has its migrations inside, as Prisma has it', async () => {
    const directory = await startWith({
      'prisma.config.ts': config({ schema: 'prisma/schema' }),
      'prisma/schema/main.prisma': plain.replace('../src', '../../src'),
    });
    expect(await init(directory)).toContain('written  prisma/schema/migrations/20261130000000_outbox');
  });

  test('says why a prisma.config.ts cannot be read, and does without it when told both paths', async () => {
    const directory = await startWith({
      'prisma.config.ts': "throw new Error('no such variable');",
      'prisma/schema.prisma': plain,
    });
    await expect(init(directory)).rejects.toThrow(
      /Prisma's configuration cannot be read \(.*no such variable.*--schema and --migrations/,
    );
    await init(directory, ['--schema', 'prisma/schema.prisma', '--migrations', 'prisma/migrations']);
    expect(await readdir(path.join(directory, 'prisma'))).toEqual(['migrations', 'schema.prisma']);
  });

  test('keeps partial indexes where the project knows them, and plain ones where it does not', async () => {
    const knowing = GENERATOR.replace('\n}', '\n  previewFeatures = ["partialIndexes"]\n}');
    for (const [generator, isPartial] of [
      [knowing, true],
      [GENERATOR, false],
    ] as const) {
      const directory = await startWith({ 'prisma/schema.prisma': schemaOf(generator, datasource()) });
      await init(directory);
      expect((await textIn(directory, 'prisma/schema.prisma')).includes('where: raw("state =')).toBe(
        isPartial,
      );
    }
  });

  test('writes models as the formatter would, with the line ends that are there', async () => {
    const directory = await startWith({ 'prisma/schema.prisma': plain.replaceAll('\n', '\r\n') });
    await init(directory);
    const text = await textIn(directory, 'prisma/schema.prisma');
    expect(text.match(/\r\n/g)?.length).toBe(text.match(/\n/g)?.length);
    await writeFile(path.join(directory, 'prisma/schema.prisma'), text.replaceAll('\r\n', '\n'));
    await prisma(directory, 'format', '--check');
  });

  test('puts them into the schema public where there are several', async () => {
    const directory = await startWith({
      'prisma/schema.prisma': schemaOf(GENERATOR, several('"public", "shop"')),
    });
    await init(directory);
    expect((await textIn(directory, 'prisma/schema.prisma')).match(/@@schema\("public"\)/g)).toHaveLength(2);
    const without = await startWith({ 'prisma/schema.prisma': schemaOf(GENERATOR, several('"shop"')) });
    await expect(init(without)).rejects.toThrow('the outbox is in the schema public');
  });

  test('keeps what is there, and brings no example back', async () => {
    const directory = await startWith({ 'prisma/schema.prisma': plain, 'outbox/events.ts': 'mine' });
    expect(await init(directory)).toContain('kept     outbox/events.ts');
    expect(await textIn(directory, 'outbox/events.ts')).toBe('mine');
    expect((await readdir(path.join(directory, 'outbox'))).toSorted()).toEqual([
      'events.ts',
      'gauge.ts',
      'prune.ts',
      'relay.ts',
      'serverless.yml',
    ]);
  });

  test('of a model that an update has changed it says what it lacks', async () => {
    const [outboxEvent = '', appliedEvent = ''] = await ours();
    const older = outboxEvent
      .replace(/^ +waitingSince.*\n/m, '')
      .replace('attempts     Int ', 'attempts  Int');
    const directory = await startWith({ 'prisma/schema.prisma': schemaOf(plain, older, appliedEvent) });
    const done = await init(directory);
    expect(done[0]).toMatch(
      /^look at {2}prisma\/schema\.prisma: OutboxEvent lacks.*\n +waitingSince DateTime\? @map\("waiting_since"\)/,
    );
    expect(done[0]?.split('\n')).toHaveLength(2);
    expect(done[1]).toBe('kept     prisma/schema.prisma');
  });

  test('adds the one of its models that is missing', async () => {
    const [outboxEvent = ''] = await ours();
    const directory = await startWith({ 'prisma/schema.prisma': schemaOf(plain, outboxEvent) });
    expect((await init(directory)).slice(0, 2)).toEqual([
      'added to prisma/schema.prisma',
      'kept     prisma/schema.prisma',
    ]);
    expect((await textIn(directory, 'prisma/schema.prisma')).match(/^model \w+/gm)).toEqual([
      'model OutboxEvent',
      'model AppliedEvent',
    ]);
  });

  test.each<[string, string, RegExp]>([
    ['a model of that name', 'model OutboxEvent {\n  id String @id\n}', /has a model OutboxEvent of its own/],
    ['an enum of that name', 'enum AppliedEvent {\n  YES\n}', /has a enum AppliedEvent of its own/],
    [
      'a model of that table',
      'model Mail {\n  id String @id\n\n  @@map("outbox_event")\n}',
      /has a model Mail of its own; .* the table outbox_event/,
    ],
    [
      'a view of that table',
      'view Mail {\n  id String @id\n\n  @@map(name: "outbox_event")\n}',
      /has a view Mail of its own/,
    ],
    [
      'a model called like the table',
      'model applied_event {\n  id String @id\n}',
      /has a model applied_event of its own/,
    ],
  ])('refuses a project that has %s, and writes nothing', async (_, block, problem) => {
    const directory = await startWith({ 'prisma/schema.prisma': schemaOf(plain, block) });
    await expect(init(directory)).rejects.toThrow(problem);
    expect((await readdir(directory)).toSorted()).toEqual(['node_modules', 'prisma']);
    expect(await textIn(directory, 'prisma/schema.prisma')).toBe(schemaOf(plain, block));
  });

  test('takes no table of another schema for its own', async () => {
    const other = 'model Mail {\n  id String @id\n\n  @@map("outbox_event")\n  @@schema("shop")\n}';
    const directory = await startWith({
      'prisma/schema.prisma': schemaOf(GENERATOR, several('"public", "shop"'), other),
    });
    expect((await init(directory))[0]).toBe('added to prisma/schema.prisma');
  });

  test.each(['', '.', '..', '../elsewhere', '/somewhere', 'out$&box', '<client>'])(
    'refuses %j for a folder, and writes nothing',
    async (folder) => {
      const directory = await startWith({ 'prisma/schema.prisma': plain });
      await expect(init(directory, ['--folder', folder])).rejects.toThrow(
        '--folder: expected a folder within',
      );
      expect((await readdir(directory)).toSorted()).toEqual(['node_modules', 'prisma']);
    },
  );

  test('takes a folder in any of its spellings', async () => {
    const directory = await startWith({ 'prisma/schema.prisma': plain });
    await init(directory, ['--folder', path.join(directory, 'src/outbox/')]);
    expect(await textIn(directory, 'src/outbox/serverless.yml')).toContain(
      'handler: src/outbox/relay.handler',
    );
    expect(await init(directory, ['--folder', './src/outbox/'])).toContain('kept     src/outbox/relay.ts');
  });

  test('a file in the way of a folder is told before anything is written', async () => {
    const directory = await startWith({ 'prisma/schema.prisma': plain, 'prisma/migrations': '' });
    await expect(init(directory)).rejects.toThrow(/migrations is a file; a folder is to be there/);
    expect(await textIn(directory, 'prisma/schema.prisma')).toBe(plain);
  });

  test('finishes what was broken off half way', async () => {
    const directory = await startWith({ 'prisma/schema.prisma': plain, 'outbox/consumer.ts': 'mine' });
    await mkdir(path.join(directory, 'prisma/migrations/20261130000000_outbox'), { recursive: true });
    const done = await init(directory);
    expect(done).toContain('written  outbox/events.ts');
    expect(await textIn(directory, 'prisma/migrations/20261130000000_outbox/migration.sql')).toContain(
      'outbox_event',
    );
  });

  test('a model in a comment is none', async () => {
    const commented = '/*\nmodel OutboxEvent {\n  id String @id\n}\n*/\n// model AppliedEvent {';
    const directory = await startWith({ 'prisma/schema.prisma': schemaOf(plain, commented) });
    expect((await init(directory))[0]).toBe('added to prisma/schema.prisma');
  });

  test.each<[string, Record<string, string>, RegExp]>([
    [
      'no schema',
      { 'package.json': '{}' },
      /no Prisma schema here \(looked for prisma\/schema\.prisma, schema\.prisma\); .*--schema PATH/,
    ],
    [
      'another database',
      { 'prisma/schema.prisma': schemaOf(GENERATOR, datasource('mysql')) },
      /needs PostgreSQL; .* has mysql/,
    ],
    [
      'no client',
      { 'prisma/schema.prisma': datasource() },
      /no generator of .* has the provider prisma-client/,
    ],
  ])('refuses %s, and writes nothing', async (_, files, problem) => {
    const directory = await startWith(files);
    await expect(init(directory)).rejects.toThrow(problem);
    const names = Object.keys(files).map((name) => name.split('/')[0]);
    expect(new Set(await readdir(directory))).toEqual(new Set(['node_modules', ...names]));
  });
});
