// The libraries we compare with are packages of the benchmarks alone, so that installing the product stays small.

import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const home = fileURLToPath(new URL('..', import.meta.url));

/** Whether `installPeers` has been done. */
export const hasPeers = (): boolean => existsSync(`${home}/node_modules/pg-boss`);

/** Installs them as the lock file says, once. */
export async function installPeers(): Promise<void> {
  if (hasPeers()) return;
  process.stderr.write('Installing the peers into test/bench/node_modules …\n');
  await promisify(execFile)('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: home });
}

/** A package that is there only for benchmarks, so its types are not known here. */
export const loadPeer = async <T>(name: string): Promise<T> => (await import(name)) as T;
