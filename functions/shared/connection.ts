import { readFileSync } from 'node:fs';
import type { ClientConfig } from 'pg';
import * as z from 'zod';
import { parseUrl, wantsDirectTls, wantsTls, withoutTls } from './database-settings.ts';
import { ConfigurationError, describeError } from './errors.ts';

/** Where the database is: one of `databaseUrl`, `databaseSecretArn` and `databaseUser`, as the cold start has checked. */
export interface ConnectionConfig {
  readonly databaseUrl?: string | undefined;
  readonly databaseSecretArn?: string | undefined;
  readonly databaseUser?: string | undefined;
  readonly databaseHost?: string | undefined;
  readonly databasePort?: number | undefined;
  readonly databaseName?: string | undefined;
  readonly databaseCaFile?: string | undefined;
}

const DEFAULT_PORT = 5432;

/** A field that may be missing; null and the empty text mean the same. */
const optional = <S extends z.ZodType>(schema: S) =>
  z.preprocess((value) => (value === '' ? undefined : (value ?? undefined)), schema.optional()).optional();

/** What RDS keeps in a secret; a secret that RDS manages itself has the first two alone. */
const secretShape = z.object({
  username: z.string().min(1),
  password: z.string().min(1),
  host: optional(z.string()),
  port: optional(z.coerce.number().int()),
  dbname: optional(z.string()),
});

/**
 * Makes a function that gives pg its settings. A secret is read each time that it is called; a token for IAM is made
 * for each connection. TLS is verified, host name included; only a connection string for this very machine may do
 * without.
 *
 * @throws ConfigurationError at once when DATABASE_CA_FILE cannot be read, or DATABASE_URL is malformed
 */
export function connectionSettings(config: ConnectionConfig): () => Promise<ClientConfig> {
  const { databaseUrl, databaseSecretArn, databaseUser: user, databaseName, databaseCaFile } = config;
  const ssl = { rejectUnauthorized: true, ...authoritiesIn(databaseCaFile) };
  if (databaseUrl !== undefined) {
    const url = parseUrl(databaseUrl);
    if (!url) throw new ConfigurationError(['DATABASE_URL: is not a valid URL (its value is not shown)']);
    const isPlain = databaseCaFile === undefined && !wantsTls(url);
    const settings: ClientConfig = {
      connectionString: withoutTls(url),
      ...(wantsDirectTls(url) && { sslnegotiation: 'direct' }),
      ssl: isPlain ? false : ssl,
    };
    return async () => settings;
  }
  if (databaseSecretArn !== undefined) {
    return async () => ({ ...(await readSecret(databaseSecretArn, config)), ssl });
  }
  const { databaseHost: host = '', databasePort: port = DEFAULT_PORT } = config;
  const password = async () => {
    const { databaseToken } = await import('./signing.ts');
    return databaseToken(host, port, user ?? '');
  };
  // Not as a connection string: pg would drop the password function without a word.
  return async () => ({ host, port, ...database(databaseName), ...(user && { user }), password, ssl });
}

const database = (name: string | undefined) => (name === undefined ? {} : { database: name });

async function readSecret(arn: string, config: ConnectionConfig): Promise<ClientConfig> {
  const { readSecretText } = await import('./signing.ts');
  const secret = parseSecret(await readSecretText(arn));
  const host = config.databaseHost ?? secret.host;
  if (host === undefined) {
    throw new ConfigurationError(['DATABASE_HOST: is not set, and the secret has no host of its own']);
  }
  return {
    host,
    port: config.databasePort ?? secret.port ?? DEFAULT_PORT,
    ...database(config.databaseName ?? secret.dbname),
    user: secret.username,
    password: secret.password,
  };
}

function parseSecret(text: string): z.output<typeof secretShape> {
  const parsed = secretShape.safeParse(jsonOf(text));
  if (parsed.success) return parsed.data;
  const fields = new Set(parsed.error.issues.map(({ path }) => path.join('.') || 'JSON'));
  throw new ConfigurationError([
    `DATABASE_SECRET_ARN: the secret has no usable ${[...fields].join(', ')} (its value is not shown); expected JSON with username, password, host, port and dbname`,
  ]);
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function authoritiesIn(file: string | undefined): { ca?: string } {
  if (file === undefined) return {};
  try {
    return { ca: readFileSync(file, 'utf8') };
  } catch (error) {
    throw new ConfigurationError([`DATABASE_CA_FILE: cannot be read (${describeError(error)})`]);
  }
}
