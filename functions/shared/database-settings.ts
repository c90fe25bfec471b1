// What goes together in the database's settings, and what a connection string may say.

import { isIP } from 'node:net';
import { Client } from 'pg';

type Given = Readonly<Record<string, string | undefined>>;

/** The three ways to say where the database is, each by the variable that chooses it. */
export const WAYS = ['DATABASE_URL', 'DATABASE_SECRET_ARN', 'DATABASE_USER'];
const PARTS = ['DATABASE_HOST', 'DATABASE_PORT', 'DATABASE_NAME'];

/** What is wrong with these variables taken together: sentences that begin with the variable. Never shows a value. */
export function databaseProblems(given: Given): string[] {
  const isSet = (key: string) => given[key] !== undefined;
  const [way, ...others] = WAYS.filter(isSet);
  if (way === undefined) {
    const [part] = PARTS.filter(isSet);
    return part === undefined
      ? [
          'DATABASE_URL: is not set, nor DATABASE_SECRET_ARN, nor DATABASE_USER with DATABASE_HOST and DATABASE_NAME; one is needed',
        ]
      : [`DATABASE_USER: is not set, and ${part} is; a host needs its role (IAM), or DATABASE_SECRET_ARN`];
  }
  if (others.length > 0) {
    return [`${way}: is set, and so is ${others.join(' and ')}; they exclude one another`];
  }
  switch (way) {
    case 'DATABASE_URL':
      return [
        ...PARTS.filter(isSet).map((key) => `${key}: does not go with DATABASE_URL, which says it itself`),
        ...urlProblems(given['DATABASE_URL'] ?? ''),
      ];
    case 'DATABASE_USER':
      return ['DATABASE_HOST', 'DATABASE_NAME']
        .filter((key) => !isSet(key))
        .map((key) => `${key}: is not set; DATABASE_USER (IAM authentication) needs it`);
    default:
      return [];
  }
}

/** Of libpq's modes, those that encrypt: all of them mean verify-full here. */
const VERIFIED = ['prefer', 'require', 'verify-ca', 'verify-full'];

function urlProblems(text: string): string[] {
  // What is no connection string at all, the setting's own pattern has said already.
  if (!/^postgres(ql)?:\/\//.test(text)) return [];
  const url = parseUrl(text);
  if (!url)
    return [
      /@\/|@$/.test(text)
        ? 'DATABASE_URL: has no host after the @ (its value is not shown); write a socket there, as in postgresql://user@%2Fvar%2Frun%2Fpostgresql/name'
        : 'DATABASE_URL: is not a valid URL (its value is not shown); encode special characters in the password',
    ];
  return [...schemaProblems(url), ...tlsProblems(url)];
}

/** Prisma's own engine once read it, pg never has: the tables would be looked for in another schema than is said. */
function schemaProblems({ searchParams }: URL): string[] {
  if (searchParams.getAll('schema').every((schema) => ['', 'public'].includes(schema))) return [];
  return [
    'DATABASE_URL: schema is not read; give the role a search path (ALTER ROLE … SET search_path), or the URL options=-csearch_path%3D…',
  ];
}

function tlsProblems(url: URL): string[] {
  const problems = [];
  const mode = tlsModeOf(url);
  if (mode === 'no-verify' || url.searchParams.get('uselibpqcompat') === 'true') {
    problems.push(
      'DATABASE_URL: asks for TLS without checking the certificate; leave that out, and name a private authority in DATABASE_CA_FILE',
    );
  } else if (mode === 'disable' && !isLocal(url)) {
    problems.push(
      'DATABASE_URL: sslmode=disable is for a server on this machine alone; the network is not trusted',
    );
  } else if (mode !== undefined && mode !== 'disable' && !VERIFIED.includes(mode)) {
    problems.push(`DATABASE_URL: sslmode is none of ${VERIFIED.join(', ')}`);
  }
  const negotiation = url.searchParams.get('sslnegotiation') ?? 'postgres';
  if (!['postgres', 'direct'].includes(negotiation)) {
    problems.push('DATABASE_URL: sslnegotiation is neither postgres nor direct');
  } else if (mode === 'disable' && wantsDirectTls(url)) {
    problems.push('DATABASE_URL: sslnegotiation=direct does not go with sslmode=disable');
  }
  for (const key of ['sslcert', 'sslkey', 'sslrootcert']) {
    if (url.searchParams.has(key)) {
      problems.push(`DATABASE_URL: ${key} is not read; name an authority in DATABASE_CA_FILE`);
    }
  }
  return problems;
}

/** A connection string's parts; undefined when it is malformed, for the standard or for pg. */
export function parseUrl(text: string): URL | undefined {
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  try {
    decodeURIComponent(url.hostname);
    hostOf(url);
    return url;
  } catch {
    return undefined;
  }
}

/**
 * The host that pg connects to, by its own reading: an empty `host` parameter does not count, the last one wins, and
 * PGHOST stands in for none. Another reading would send a password in the clear.
 */
const hostOf = (url: URL) => new Client({ connectionString: withoutTls(url), ssl: true }).host;

function tlsModeOf(url: URL): string | undefined {
  const { searchParams } = url;
  const ssl = searchParams.get('ssl');
  if (ssl === 'no-verify') return ssl;
  if (ssl === 'false' || ssl === '0') return 'disable';
  return searchParams.get('sslmode') ?? (ssl === null && !wantsDirectTls(url) ? undefined : 'require');
}

/** Whether TLS begins at once, without asking the server first whether it speaks it. */
export const wantsDirectTls = ({ searchParams }: URL) => searchParams.get('sslnegotiation') === 'direct';

/** Whether a server is reached without any network: by loopback or by a socket. */
function isLocal(url: URL): boolean {
  const host = hostOf(url);
  if (host.startsWith('/') || host === 'localhost' || host === '::1') return true;
  return isIP(host) === 4 && host.startsWith('127.');
}

/** Whether the connection is to be encrypted: always, but for a server on this machine that nothing is said about. */
export const wantsTls = (url: URL) => !isLocal(url) || (tlsModeOf(url) ?? 'disable') !== 'disable';

const TLS_PARAMETERS = [
  'ssl',
  'sslmode',
  'sslnegotiation',
  'uselibpqcompat',
  'sslcert',
  'sslkey',
  'sslrootcert',
];

/** The same connection string without what it says about TLS, which pg would take over what it is told beside. */
export function withoutTls(url: URL): string {
  const plain = new URL(url);
  for (const key of TLS_PARAMETERS) plain.searchParams.delete(key);
  return plain.href;
}
