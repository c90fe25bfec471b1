// `npm run runtime`: AWS's own Lambda runtime client, and PgBouncer, for the tests that need them.
// Nothing is installed on this machine: all of it lies in one cache folder, made once for each state of the lock file.

import { execFile } from 'node:child_process';
import { cp, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { unpackDebian } from './debian.ts';
import { isThere, placeOf, type Tool } from './places.ts';

const run = promisify(execFile);
const here = import.meta.dirname;

/** Its source has the version as a blank to be filled in by CMake; the number only names the client to the API. */
const VERSION_BLANK = /@PROJECT_VERSION_\w+@/g;

/**
 * aws-lambda-ric. Its own install script builds a curl and needs CMake, Python and minutes: its JavaScript is taken as
 * published, and its native client is compiled from its own sources against the curl that the system has.
 */
async function makeRuntime(folder: string): Promise<void> {
  for (const file of ['package.json', 'package-lock.json'])
    await cp(path.join(here, file), path.join(folder, file));
  await run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: folder });
  const client = path.join(folder, 'node_modules/aws-lambda-ric');
  const sources = path.join(folder, 'sources');
  await mkdir(sources);
  await run('tar', ['-xJf', path.join(client, 'deps/aws-lambda-cpp.tar.xz'), '-C', sources]);
  const version = await readFile(path.join(sources, 'src/version.cpp.in'), 'utf8');
  await writeFile(path.join(sources, 'src/version.cpp'), version.replaceAll(VERSION_BLANK, '0'));
  const curl = await unpackDebian(['libcurl4-openssl-dev', 'libcurl4'], path.join(folder, 'debian'));
  const library = (await readdir(curl.libraries)).find((name) => name.startsWith('libcurl.so.4')) ?? '';
  const flags = '-shared -fPIC -O1 -std=c++20 -fvisibility=hidden';
  const definitions = '-DNODE_GYP_MODULE_NAME=rapid_client -DBUILDING_NODE_EXTENSION -DNAPI_CPP_EXCEPTIONS';
  const includes = [
    path.join(sources, 'include'),
    path.join(path.dirname(process.execPath), '../include/node'),
    path.join(folder, 'node_modules/node-addon-api'),
    ...curl.includes,
  ];
  await run('g++', [
    ...`${flags} ${definitions}`.split(' '),
    ...includes.map((include) => `-I${include}`),
    path.join(client, 'src/native/rapid-client.cc'),
    ...['logging', 'runtime', 'version'].map((name) => path.join(sources, `src/${name}.cpp`)),
    path.join(curl.libraries, library),
    '-o',
    path.join(client, 'rapid-client.node'),
  ]);
  // It may be compiled and yet lack a library that the system does not have.
  await run(process.execPath, ['--print', `require('${client}/rapid-client.node').next`], {
    env: { AWS_LAMBDA_RUNTIME_API: '127.0.0.1:1' },
  });
}

/** PgBouncer and what Debian builds it with. */
const makePgBouncer = async (folder: string) =>
  void (await unpackDebian(['pgbouncer', 'libevent-2.1-7', 'libc-ares2'], folder));

const TOOLS: Readonly<Record<Tool, (folder: string) => Promise<void>>> = {
  runtime: makeRuntime,
  pgbouncer: makePgBouncer,
};

/** Makes a tool beside its place and moves it there whole, so that it is there entirely or not at all. */
async function make(tool: Tool): Promise<void> {
  const place = await placeOf(tool);
  if (await isThere(tool)) return console.info(`${tool}: ${place}`);
  const unfinished = `${place}.${process.pid}`;
  await mkdir(unfinished, { recursive: true });
  try {
    await TOOLS[tool](unfinished);
    await rename(unfinished, place);
    console.info(`${tool}: ${place}`);
  } catch (error) {
    const { stderr = '', message } = error as Error & { stderr?: string };
    console.error(
      `${tool} could not be made, so its tests will be skipped (or fail, where TEST_TOOLS=required).\n` +
        `It takes Debian with apt-get, dpkg, tar, xz and g++, and Node from this project's packages.\n${stderr || message}`,
    );
    process.exitCode = 1;
  } finally {
    await rm(unfinished, { recursive: true, force: true });
  }
}

await make('runtime');
await make('pgbouncer');
