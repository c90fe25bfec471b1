import { execFile } from 'node:child_process';
import { mkdir, readdir } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** What Debian packages brought, unpacked below one folder. */
export interface Unpacked {
  includes: string[];
  libraries: string;
}

/** Debian's name for this machine's libraries. */
const TRIPLET: Readonly<Record<string, string>> = { x64: 'x86_64-linux-gnu', arm64: 'aarch64-linux-gnu' };

/**
 * Downloads Debian packages and unpacks them below `folder`, without installing them: it needs no root, and leaves the
 * system as it was. The lists of packages are fetched when the machine has none (that does need root).
 *
 * @throws with apt's own words when a package is not to be had
 */
export async function unpackDebian(packages: readonly string[], folder: string): Promise<Unpacked> {
  await mkdir(folder, { recursive: true });
  const download = () => run('apt-get', ['download', '-qq', ...packages], { cwd: folder });
  try {
    await download();
  } catch {
    await run('apt-get', ['update', '-qq']);
    await download();
  }
  const archives = (await readdir(folder)).filter((name) => name.endsWith('.deb'));
  for (const archive of archives) await run('dpkg', ['-x', archive, '.'], { cwd: folder });
  const triplet = TRIPLET[process.arch] ?? '';
  return {
    includes: [path.join(folder, 'usr/include', triplet), path.join(folder, 'usr/include')],
    libraries: librariesOf(folder),
  };
}

/** Where unpacked packages have their shared libraries: for LD_LIBRARY_PATH. */
export const librariesOf = (folder: string) => path.join(folder, 'usr/lib', TRIPLET[process.arch] ?? '');
