import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

/** One migration folder: its name, its SQL, and the checksum that Prisma stores (SHA-256, hex). */
export interface MigrationFile {
  name: string;
  sql: string;
  checksum: string;
}

/**
 * Reads a `prisma/migrations` folder in the order in which Prisma applies it (by name).
 *
 * @throws an ENOENT error when the folder, or the `migration.sql` of one of its folders, is missing.
 */
export function readMigrations(directory: string): MigrationFile[] {
  return readdirSync(directory, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name)
    .toSorted()
    .map((name) => {
      const sql = readFileSync(path.join(directory, name, 'migration.sql'), 'utf8');
      return { name, sql, checksum: sha256(sql) };
    });
}

/** True when the SQL is the one behind the checksum, whatever line ends Git gave the two checkouts. */
export function matchesChecksum(sql: string, checksum: string): boolean {
  const unix = sql.replaceAll('\r\n', '\n');
  return [sql, unix, unix.replaceAll('\n', '\r\n')].some((text) => sha256(text) === checksum);
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
