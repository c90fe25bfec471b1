// The three ways to the database, on a PostgreSQL with TLS: what is verified, and what survives a rotation.

import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { Client } from 'pg';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { connectionSettings, type ConnectionConfig } from '../functions/shared/connection.ts';
import { connect } from '../functions/shared/database.ts';
import { databaseToken } from '../functions/shared/signing.ts';
import type { PrismaClient } from '../prisma/client/client.ts';
import { afterwards } from './support/cleanup.ts';
import { runAsAdmin } from './support/server.ts';
import { startTlsPostgres, type TlsPostgres } from './support/tls-postgres.ts';
import { until } from './support/wait.ts';

const ARN = 'arn:aws:secretsmanager:eu-central-1:000000000000:secret:outbox-AbCdEf';

let server: TlsPostgres;

beforeAll(async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'outbox-tls-'));
  afterwards(() => rm(folder, { recursive: true }));
  server = await startTlsPostgres(folder);
});

function open(config: ConnectionConfig, poolSize = 3): PrismaClient {
  const prisma = connect({ poolSize, ...config });
  afterwards(() => prisma.$disconnect());
  return prisma;
}

interface Session {
  user: string;
  tls: boolean;
}

const session = async (prisma: PrismaClient): Promise<Session | undefined> =>
  (
    await prisma.$queryRawUnsafe<Session[]>(
      'SELECT current_user::text AS "user", ssl AS tls FROM pg_stat_ssl WHERE pid = pg_backend_pid()',
    )
  )[0];

const admin = (...statements: string[]) =>
  runAsAdmin(server.url, ...statements.map((statement): [string] => [statement]));

const endSessionsOf = (user: string) =>
  admin(`SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = '${user}'`);

/** The connection string for this host; no mention of TLS unless it is asked for. */
function urlFor(host: string, query = ''): string {
  const url = new URL(server.url);
  url.hostname = host;
  return `${url.href}${query}`;
}

describe('a certificate from a private authority', () => {
  test.each(['', '?sslmode=require', '?sslmode=verify-full', '?ssl=true'])(
    'is accepted with DATABASE_CA_FILE (%s)',
    async (query) => {
      const prisma = open({ databaseUrl: urlFor('localhost', query), databaseCaFile: server.caFile });
      expect(await session(prisma)).toEqual({ user: 'outbox', tls: true });
    },
  );

  test.each(['?sslmode=require', '?sslmode=prefer', '?sslmode=verify-ca'])(
    'is refused without, also where others only encrypt (%s)',
    async (query) => {
      await expect(session(open({ databaseUrl: urlFor('localhost', query) }))).rejects.toThrow(
        /certificate/i,
      );
    },
  );

  test('is refused when another authority is trusted', async () => {
    const prisma = open({ databaseUrl: urlFor('localhost'), databaseCaFile: server.otherCaFile });
    await expect(session(prisma)).rejects.toThrow(/certificate/i);
  });

  test('is refused under a host name that is not in it', async () => {
    const prisma = open({ databaseUrl: urlFor('127.0.0.1'), databaseCaFile: server.caFile });
    await expect(session(prisma)).rejects.toThrow(/altname|does not match|hostname|certificate/i);
  });

  test('is not asked for on this machine, where nothing is said about it', async () => {
    expect(await session(open({ databaseUrl: urlFor('127.0.0.1') }))).toEqual({ user: 'outbox', tls: false });
  });

  test('a server without TLS is refused, not spoken to in the clear', async () => {
    const said: string[] = [];
    const plain = createServer((socket) =>
      socket.on('data', (data) => {
        said.push(data.toString('latin1'));
        socket.write('N');
      }),
    );
    afterwards(() => plain.close());
    plain.listen(0, '127.0.0.1');
    await until(() => plain.listening);
    const { port } = plain.address() as AddressInfo;
    const databaseUrl = `postgresql://app:s3cret@localhost:${port}/shop?sslmode=require`;
    await expect(session(open({ databaseUrl }))).rejects.toThrow(/SSL|TLS/i);
    expect(said.join('')).not.toContain('app');
  });

  test('an authority file that cannot be read stops the cold start, naming the setting', () => {
    expect(() => open({ databaseUrl: server.url, databaseCaFile: '/nowhere/ca.pem' })).toThrow(
      /DATABASE_CA_FILE: cannot be read \(ENOENT/,
    );
  });
});

const clientFor = async (config: ConnectionConfig) => new Client(await connectionSettings(config)());

describe('what pg makes of a connection string', () => {
  test.each([
    ['an empty parameter', 'postgresql://app:pw@db.example.com/x?host=', 'db.example.com'],
    [
      'a repeated one',
      'postgresql://app:pw@localhost/x?host=localhost&host=db.example.com',
      'db.example.com',
    ],
    ['PGHOST', 'postgresql:///x', 'db.elsewhere'],
  ])('is what decides that it is another machine: %s', async (_, databaseUrl, host) => {
    vi.stubEnv('PGHOST', 'db.elsewhere');
    afterwards(() => vi.unstubAllEnvs());
    expect(await clientFor({ databaseUrl })).toMatchObject({ host, ssl: { rejectUnauthorized: true } });
  });

  test.each([
    'postgresql://[::1]/x',
    'postgresql://%2Ftmp/x',
    'postgresql:///x',
    'postgresql://h/x?host=/tmp',
  ])('is what decides that it is this one: %s', async (databaseUrl) => {
    expect(await clientFor({ databaseUrl })).toMatchObject({ ssl: false });
  });

  test.each(['db.example.com', 'localhost'])('TLS at once is verified like any other (%s)', async (host) => {
    const databaseUrl = `postgresql://${host}/x?sslnegotiation=direct`;
    expect(await clientFor({ databaseUrl, databaseCaFile: server.caFile })).toMatchObject({
      ssl: { rejectUnauthorized: true, ca: expect.stringContaining('CERTIFICATE') },
      sslNegotiation: 'direct',
    });
    expect(await clientFor({ databaseUrl })).toMatchObject({ ssl: { rejectUnauthorized: true } });
  });

  test.each(['ssl=no-verify', 'sslcert=/nowhere', 'uselibpqcompat=true&sslmode=require'])(
    'cannot take the place of what is verified (%s)',
    async (query) => {
      const databaseUrl = `postgresql://db.example.com/x?${query}`;
      expect(await clientFor({ databaseUrl })).toMatchObject({ ssl: { rejectUnauthorized: true } });
    },
  );

  test('a malformed one is refused without its value', () => {
    expect(() => connectionSettings({ databaseUrl: 'postgresql://app:s3cret@%zz/x' })).toThrow(
      /DATABASE_URL: is not a valid URL \(its value is not shown\)$/,
    );
  });
});

/** A Secrets Manager with one secret, which can be rotated, and refuse. */
async function startSecrets(secret: Record<string, unknown>) {
  const state = { secret, reads: 0, answer: 200, authorization: '' };
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const { SecretId } = JSON.parse(await text(request)) as { SecretId: string };
    state.reads += 1;
    state.authorization = String(request.headers.authorization);
    const isKnown = SecretId === ARN && request.headers['x-amz-target'] === 'secretsmanager.GetSecretValue';
    response.writeHead(isKnown ? state.answer : 400, { 'content-type': 'application/x-amz-json-1.1' });
    response.end(
      JSON.stringify(
        state.answer === 200
          ? { ARN, SecretString: JSON.stringify(state.secret) }
          : { __type: 'com.amazonaws.secretsmanager#AccessDeniedException', Message: 'no' },
      ),
    );
  };
  const http = createHttpServer((request, response) => void answer(request, response));
  http.listen(0, '127.0.0.1');
  await until(() => http.listening);
  afterwards(() => http.close());
  vi.stubEnv('AWS_ENDPOINT_URL_SECRETS_MANAGER', `http://127.0.0.1:${(http.address() as AddressInfo).port}`);
  return state;
}

function credentials() {
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'AKIDTEST');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'test');
  vi.stubEnv('AWS_REGION', 'eu-central-1');
  afterwards(() => vi.unstubAllEnvs());
}

async function rotating() {
  credentials();
  await admin('DROP ROLE IF EXISTS app', "CREATE ROLE app LOGIN PASSWORD 'first'");
  return startSecrets({
    engine: 'postgres',
    host: 'localhost',
    port: server.port,
    username: 'app',
    password: 'first',
    dbname: 'outbox',
  });
}
const secret = () => ({ databaseSecretArn: ARN, databaseCaFile: server.caFile });

describe('a secret', () => {
  test('is read once, signed, with the first query and not before', async () => {
    const secrets = await rotating();
    const prisma = open(secret());
    expect(secrets.reads).toBe(0);
    expect(await session(prisma)).toEqual({ user: 'app', tls: true });
    await Promise.all([session(prisma), session(prisma), session(prisma)]);
    expect(secrets.reads).toBe(1);
    expect(secrets.authorization).toMatch(
      /^AWS4-HMAC-SHA256 Credential=AKIDTEST\/\d{8}\/eu-central-1\/secretsmanager\/aws4_request, SignedHeaders=[\w;-]*host[\w;-]*, Signature=[0-9a-f]{64}$/,
    );
  });

  test('is read again when its password was rotated, once for all who wait, and no query fails', async () => {
    const secrets = await rotating();
    const prisma = open(secret());
    await session(prisma);
    await admin("ALTER ROLE app PASSWORD 'second'");
    secrets.secret = { ...secrets.secret, password: 'second' };
    await endSessionsOf('app');
    const sessions = await Promise.all(Array.from({ length: 3 }, () => session(prisma)));
    expect(sessions.map((each) => each?.user)).toEqual(['app', 'app', 'app']);
    expect(secrets.reads).toBe(2);
  });

  test('that now names another role is followed: rotation by two roles', async () => {
    const secrets = await rotating();
    const prisma = open(secret());
    await session(prisma);
    await admin('DROP ROLE IF EXISTS app_clone', "CREATE ROLE app_clone LOGIN PASSWORD 'third'");
    await admin("ALTER ROLE app PASSWORD 'gone'");
    secrets.secret = { ...secrets.secret, username: 'app_clone', password: 'third' };
    await endSessionsOf('app');
    expect(await session(prisma)).toEqual({ user: 'app_clone', tls: true });
    // A transaction takes its connection another way than a query.
    await endSessionsOf('app_clone');
    await admin("ALTER ROLE app_clone PASSWORD 'fourth'");
    secrets.secret = { ...secrets.secret, password: 'fourth' };
    expect(await prisma.$transaction((tx) => tx.$queryRawUnsafe('SELECT 1 AS one'))).toEqual([{ one: 1 }]);
  });

  test('that still has the refused password is not asked for at every attempt', async () => {
    const secrets = await rotating();
    const prisma = open(secret());
    await session(prisma);
    await admin("ALTER ROLE app PASSWORD 'unknown'");
    await endSessionsOf('app');
    for (let attempt = 0; attempt < 4; attempt += 1) {
      await expect(session(prisma)).rejects.toThrow(/Authentication|password/i);
    }
    expect(secrets.reads).toBe(2);
  });

  test('that cannot be read after a rotation is tried twice, not at every attempt, and says so to all', async () => {
    const secrets = await rotating();
    const prisma = open(secret());
    await session(prisma);
    await admin("ALTER ROLE app PASSWORD 'second'");
    await endSessionsOf('app');
    secrets.answer = 500;
    for (let attempt = 0; attempt < 3; attempt += 1) {
      await expect(session(prisma)).rejects.toThrow(/DATABASE_SECRET_ARN/);
    }
    expect(secrets.reads).toBe(1 + 2);
  });

  test('that may not be read fails the query, naming the setting, and the next query tries again', async () => {
    const secrets = await rotating();
    secrets.answer = 400;
    const prisma = open(secret());
    await expect(session(prisma)).rejects.toThrow(/DATABASE_SECRET_ARN/);
    expect(secrets.reads).toBe(1);
    secrets.answer = 200;
    expect(await session(prisma)).toMatchObject({ user: 'app' });
  });

  test.each([[{}], [{ host: '', port: '', dbname: '' }], [{ host: null, port: null, dbname: null }]])(
    'may leave host and database to the settings, as one that RDS manages does (%o)',
    async (blank) => {
      const secrets = await rotating();
      secrets.secret = { username: 'app', password: 'first', ...blank };
      await expect(session(open(secret()))).rejects.toThrow(/DATABASE_HOST: is not set/);
      const config = {
        ...secret(),
        databaseHost: 'localhost',
        databasePort: server.port,
        databaseName: 'outbox',
      };
      expect(await session(open(config))).toEqual({ user: 'app', tls: true });
    },
  );
});

describe('IAM', () => {
  test('each connection has a token of its own for password, signed for host, port and user', async () => {
    credentials();
    vi.useFakeTimers({ toFake: ['Date'], now: new Date('2026-11-30T12:00:00Z') });
    afterwards(() => vi.useRealTimers());
    const token = () => databaseToken('localhost', server.port, 'iam_app');
    const first = await token();
    const signed = new URL(`https://${first}`);
    expect(signed.host).toBe(`localhost:${server.port}`);
    expect(Object.fromEntries(signed.searchParams)).toEqual({
      Action: 'connect',
      DBUser: 'iam_app',
      'X-Amz-Algorithm': 'AWS4-HMAC-SHA256',
      'X-Amz-Credential': 'AKIDTEST/20261130/eu-central-1/rds-db/aws4_request',
      'X-Amz-Date': '20261130T120000Z',
      'X-Amz-Expires': '900',
      'X-Amz-SignedHeaders': 'host',
      'X-Amz-Signature': expect.stringMatching(/^[0-9a-f]{64}$/),
    });
    const config = {
      databaseUser: 'iam_app',
      databaseHost: 'localhost',
      databasePort: server.port,
      databaseName: 'outbox',
      databaseCaFile: server.caFile,
    };
    await admin('DROP ROLE IF EXISTS iam_app', `CREATE ROLE iam_app LOGIN PASSWORD '${first}'`);
    const prisma = open(config);
    expect(await session(prisma)).toEqual({ user: 'iam_app', tls: true });
    // A minute later PostgreSQL takes the later token alone: the first one may not be kept.
    vi.setSystemTime(new Date('2026-11-30T12:01:00Z'));
    await admin(`ALTER ROLE iam_app PASSWORD '${await token()}'`);
    await endSessionsOf('iam_app');
    expect(await session(prisma)).toEqual({ user: 'iam_app', tls: true });
  });
});
