// A PostgreSQL whose certificate a private authority has signed, for `localhost` and no other name.

import { chown, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { generate } from 'selfsigned';
import { deployMigrations } from '../../functions/migrate/migrate.ts';
import { startPostgres } from '../../infra/local/postgres.ts';
import { afterwards } from './cleanup.ts';
import { runAsAdmin } from './server.ts';
import { until } from './wait.ts';

/** A server that speaks TLS beside plain connections. */
export interface TlsPostgres {
  /** A plain connection string of a superuser, without TLS. */
  url: string;
  port: number;
  /** The authority's certificate, and one of another authority of the same name. */
  caFile: string;
  otherCaFile: string;
}

const authority = () =>
  generate([{ name: 'commonName', value: 'Private authority' }], {
    extensions: [
      { name: 'basicConstraints', cA: true, critical: true },
      { name: 'keyUsage', keyCertSign: true, critical: true },
    ],
  });

/** Starts one with the outbox's tables in it; stopped when the file ends. `folder` takes the authorities' files. */
export async function startTlsPostgres(folder: string): Promise<TlsPostgres> {
  const { url, stop } = await startPostgres();
  afterwards(stop);
  const [ours, other] = await Promise.all([authority(), authority()]);
  const server = await generate([{ name: 'commonName', value: 'localhost' }], {
    ca: { key: ours.private, cert: ours.cert },
    extensions: [{ name: 'subjectAltName', altNames: [{ type: 2, value: 'localhost' }] }],
  });
  const caFile = path.join(folder, 'ca.pem');
  const otherCaFile = path.join(folder, 'other-ca.pem');
  await writeFile(caFile, ours.cert);
  await writeFile(otherCaFile, other.cert);
  await giveCertificate(url, server.cert, server.private);
  await deployMigrations({
    connectionString: url,
    directory: path.resolve(import.meta.dirname, '../../prisma/migrations'),
  });
  return { url, port: Number(new URL(url).port), caFile, otherCaFile };
}

/** PostgreSQL reads its certificate again when it is told to; the files must be its own. */
async function giveCertificate(url: string, cert: string, key: string): Promise<void> {
  const [found] = await runAsAdmin(url, ['SHOW data_directory']);
  const directory = String(found?.['data_directory']);
  const { uid, gid } = await stat(directory);
  for (const [name, content] of Object.entries({ 'server.crt': cert, 'server.key': key })) {
    await writeFile(path.join(directory, name), content, { mode: 0o600 });
    await chown(path.join(directory, name), uid, gid);
  }
  await runAsAdmin(url, ["ALTER SYSTEM SET ssl = 'on'"], ['SELECT pg_reload_conf()']);
  await until(async () => (await runAsAdmin(url, ['SHOW ssl']))[0]?.['ssl'] === 'on');
}
