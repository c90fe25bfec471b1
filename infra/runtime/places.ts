// Where `npm run runtime` puts what it makes.

import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import path from 'node:path';

/** `runtime` is AWS's runtime client, `pgbouncer` is PgBouncer. */
export type Tool = 'runtime' | 'pgbouncer';

/** The file that is there when the tool is. */
const PROOF: Readonly<Record<Tool, string>> = {
  runtime: 'node_modules/aws-lambda-ric/rapid-client.node',
  pgbouncer: 'usr/sbin/pgbouncer',
};

/** A tool's folder in the user's cache, another one for each state of this folder: checkouts share it. */
export async function placeOf(tool: Tool): Promise<string> {
  const hash = createHash('sha256').update(`${process.arch} ${process.version}`);
  for (const file of (await readdir(import.meta.dirname)).toSorted()) {
    hash.update(await readFile(path.join(import.meta.dirname, file)));
  }
  const cache = process.env['XDG_CACHE_HOME'] || path.join(homedir(), '.cache');
  return path.join(cache, 'prisma-outbox-relay', `${tool}-${hash.digest('hex').slice(0, 12)}`);
}

/** Whether the tool has been made. */
export const isThere = async (tool: Tool) => existsSync(path.join(await placeOf(tool), PROOF[tool]));

/** The tool's own file, to be run. */
export const programOf = async (tool: Tool) => path.join(await placeOf(tool), PROOF[tool]);
