import { unzipSync } from 'fflate';
import { mkdir, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterwards } from './cleanup.ts';
import { packaged } from './packaged.ts';

/** The packaged zip of a function, unpacked into an empty folder outside the repository; removed when the test ends. */
export async function unpackFunction(name: string): Promise<string> {
  const { directory } = await packaged();
  const folder = await realpath(await mkdtemp(path.join(tmpdir(), `outbox-${name}-`)));
  afterwards(() => rm(folder, { recursive: true }));
  const zip = unzipSync(await readFile(path.join(directory, 'dist', `${name}.zip`)));
  for (const [file, content] of Object.entries(zip)) {
    await mkdir(path.join(folder, path.dirname(file)), { recursive: true });
    await writeFile(path.join(folder, file), content);
  }
  return folder;
}
