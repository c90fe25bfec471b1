// What goes together in the database's settings, and what a connection string may say.

import { isIP } from 'node:net';

type Given = Readonly<Record<string, string | undefined>>;

/** The three ways to say where the database is, each by the variable that chooses it. */
const WAYS = ['DATABASE_URL', 'DATABASE_SECRET_ARN', 'DATABASE_USER'];
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
      'DATABASE_URL: is not a valid URL (its value is not shown); encode special characters in the password',
    ];
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
  for (const key of ['sslcert', 'sslkey', 'sslrootcert']) {
    if (url.searchParams.has(key)) {
      problems.push(`DATABASE_URL: ${key} is not read; name an authority in DATABASE_CA_FILE`);
    }
  }
  return problems;
}

/** A connection string's parts; undefined when it is malformed. */
export function parseUrl(text: string): URL | undefined {
  return URL.canParse(text) ? new URL(text) : undefined;
}

function tlsModeOf({ searchParams }: URL): string | undefined {
  const ssl = searchParams.get('ssl');
  if (ssl === 'no-verify') return ssl;
  if (ssl === 'false' || ssl === '0') return 'disable';
  return searchParams.get('sslmode') ?? (ssl === null ? undefined : 'require');
}

/** Whether a server is reached without any network: by loopback or by a socket. */
export function isLocal({ hostname, searchParams }: URL): boolean {
  const host = searchParams.get('host') ?? decodeURIComponent(hostname);
  if (host === '' || host.startsWith('/') || host === 'localhost' || host === '[::1]') return true;
  return isIP(host) === 4 && host.startsWith('127.');
}

/** Whether the connection is to be encrypted: always, but for a server on this machine that nothing is said about. */
export const wantsTls = (url: URL) => !isLocal(url) || (tlsModeOf(url) ?? 'disable') !== 'disable';

/** The same connection string without what it says about TLS, which pg would take over what it is told beside. */
export function withoutTls(url: URL): string {
  const plain = new URL(url);
  for (const key of ['ssl', 'sslmode', 'uselibpqcompat']) plain.searchParams.delete(key);
  return plain.href;
}
