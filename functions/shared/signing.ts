// The two requests to AWS that a database may need, signed with what the SQS client brings already: a whole client for
// each would add its code to every zip.

import { fromEnv } from '@aws-sdk/credential-provider-env';
import { Sha256 } from '@smithy/core/checksum';
import { SignatureV4 } from '@smithy/signature-v4';

/** How long RDS takes a token for, by its own rule; a connection that stands is not touched by it. */
const TOKEN_SECONDS = 900;
/** A lost answer or a slow one may not take the invocation: a function with ten seconds must still say the reason. */
const SECRET_TIMEOUT_MS = 3_000;
const SECRET_TRIES = 2;

const signerOf = (service: string, region: string) =>
  new SignatureV4({ service, region, credentials: fromEnv(), sha256: Sha256 });

/** A password for a role that authenticates with IAM: a URL that is signed and never called. */
export async function databaseToken(host: string, port: number, user: string): Promise<string> {
  const request = {
    method: 'GET',
    protocol: 'https:',
    hostname: host,
    port,
    path: '/',
    query: { Action: 'connect', DBUser: user },
    headers: { host: `${host}:${port}` },
  };
  const signer = signerOf('rds-db', process.env['AWS_REGION'] ?? '');
  const { query = {} } = await signer.presign(request, { expiresIn: TOKEN_SECONDS });
  const pairs = Object.entries(query).map(
    ([key, value]) => `${encodeURIComponent(key)}=${encodeURIComponent(String(value))}`,
  );
  return `${host}:${port}/?${pairs.join('&')}`;
}

/**
 * The text of a secret. `AWS_ENDPOINT_URL_SECRETS_MANAGER` replaces the service's own address, as in the SDK.
 *
 * @throws Error naming the service's own error, such as `AccessDeniedException`, or what stood in the way to it
 */
export async function readSecretText(arn: string): Promise<string> {
  const [, partition = '', , region = ''] = arn.split(':');
  const own = `https://secretsmanager.${region}.amazonaws.com${partition === 'aws-cn' ? '.cn' : ''}`;
  const endpoint = new URL(process.env['AWS_ENDPOINT_URL_SECRETS_MANAGER'] || own);
  const { protocol, hostname, port } = endpoint;
  for (let tries = 1; ; tries += 1) {
    const request = await signerOf('secretsmanager', region).sign({
      method: 'POST',
      protocol,
      hostname,
      ...(port && { port: Number(port) }),
      path: '/',
      query: {},
      headers: {
        host: endpoint.host,
        'content-type': 'application/x-amz-json-1.1',
        'x-amz-target': 'secretsmanager.GetSecretValue',
      },
      body: JSON.stringify({ SecretId: arn }),
    });
    try {
      return await ask(endpoint, request);
    } catch (cause) {
      const isFinal = cause instanceof RefusedError || tries >= SECRET_TRIES;
      if (isFinal) throw new Error(`DATABASE_SECRET_ARN: the secret could not be read`, { cause });
    }
  }
}

/** The service understood the request and said no. */
class RefusedError extends Error {
  override readonly name = 'RefusedError';
}

async function ask(
  endpoint: URL,
  { headers, body }: { headers: Record<string, string>; body?: string },
): Promise<string> {
  const { host: _, ...sent } = headers;
  const response = await fetch(endpoint, {
    method: 'POST',
    headers: sent,
    body: body ?? '',
    signal: AbortSignal.timeout(SECRET_TIMEOUT_MS),
  });
  const text = await response.text();
  if (response.ok) return (JSON.parse(text) as { SecretString?: string }).SecretString ?? '';
  const type = /"__type"\s*:\s*"(?:[^"#]*#)?([^"]+)"/.exec(text)?.[1] ?? 'no error type';
  const reason = `${response.status} ${type}`;
  throw response.status < 500 && response.status !== 429 && !/Throttl/.test(type)
    ? new RefusedError(reason)
    : new Error(reason);
}
