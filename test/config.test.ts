import { describe, expect, test } from 'vitest';
import { consumerConfig } from '../functions/consumer/config.ts';
import { pruneConfig } from '../functions/prune/config.ts';
import { relayConfig } from '../functions/relay/config.ts';
import type { Environment } from '../functions/shared/config.ts';
import { ConfigurationError } from '../functions/shared/errors.ts';

const DATABASE_URL = 'postgresql://app:s3cr3t-pa55@db.internal:5432/shop';
const OUTBOX_QUEUE_URL = 'https://sqs.eu-central-1.amazonaws.com/123456789012/stock';
const destination = { kind: 'sqs', queueUrl: OUTBOX_QUEUE_URL };
const OUTBOX_DESTINATIONS = JSON.stringify({ stock: destination });

const relayWith = (more: Environment = {}) => relayConfig({ DATABASE_URL, OUTBOX_DESTINATIONS, ...more });
const consumerWith = (more: Environment = {}) => consumerConfig({ DATABASE_URL, OUTBOX_QUEUE_URL, ...more });
const pruneWith = (more: Environment = {}) => pruneConfig({ DATABASE_URL, ...more });

/** The message of the refusal; a configuration that is accepted fails the test. */
function refusal(read: () => unknown): string {
  try {
    read();
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigurationError);
    return (error as Error).message;
  }
  throw new Error('the configuration was accepted');
}

describe('what is read', () => {
  test('the relay, from two variables', () => {
    expect(relayWith()).toEqual({
      databaseUrl: DATABASE_URL,
      poolSize: 5,
      destinations: {
        stock: { kind: 'sqs', queueUrl: OUTBOX_QUEUE_URL, maxBytes: 1_048_576, parkedHead: 'hold' },
      },
      operationsDestination: undefined,
      backlogLateSeconds: 300,
      functionTimeoutSeconds: 25,
      leaseSeconds: 30,
      claimLimit: 100,
      claimBytes: 8_388_608,
      claimsUnderway: 4,
      callsInFlight: 16,
      callTimeoutSeconds: 5,
      maxAttempts: 10,
      backoffBaseSeconds: 1,
      backoffMaxSeconds: 300,
      keepPublished: true,
    });
  });

  test('a consumer, from two variables', () => {
    expect(consumerWith()).toMatchObject({
      queueUrl: OUTBOX_QUEUE_URL,
      functionTimeoutSeconds: 30,
      queueVisibilitySeconds: 185,
      concurrency: 4,
      poolSize: 5,
    });
  });

  test('prune, from one', () => {
    expect(pruneWith()).toMatchObject({ retentionHours: 24, ledgerRetentionDays: 35 });
  });

  test('what is set, and nothing of the environment that is not ours', () => {
    const config = relayWith({
      OUTBOX_LEASE_SECONDS: '60.5',
      OUTBOX_KEEP_PUBLISHED: 'false',
      OUTBOX_CLAIM_LIMIT: '500',
      PATH: '/bin',
      AWS_REGION: 'eu-central-1',
    });
    expect(config).toMatchObject({ leaseSeconds: 60.5, keepPublished: false, claimLimit: 500 });
    expect(Object.keys(config)).not.toContain('PATH');
  });

  test("a destination's own size limit", () => {
    const OUTBOX_DESTINATIONS = JSON.stringify({ stock: { ...destination, maxBytes: 262_144 } });
    expect(relayWith({ OUTBOX_DESTINATIONS }).destinations['stock']?.maxBytes).toBe(262_144);
  });
});

describe('contradictions stop the cold start, naming both numbers', () => {
  // Case A12.
  test('a lease that ends while the function still runs', () => {
    const message = refusal(() =>
      relayWith({ OUTBOX_LEASE_SECONDS: '20', OUTBOX_FUNCTION_TIMEOUT_SECONDS: '25' }),
    );
    expect(message).toMatch(/OUTBOX_LEASE_SECONDS: 20 .*OUTBOX_FUNCTION_TIMEOUT_SECONDS \(25\)/);
  });

  test('a lease as long as the function is not above it', () => {
    const message = refusal(() =>
      relayWith({ OUTBOX_LEASE_SECONDS: '25', OUTBOX_FUNCTION_TIMEOUT_SECONDS: '25' }),
    );
    expect(message).toContain('OUTBOX_LEASE_SECONDS: 25');
  });

  // Case A12: the time one batch can take is that of a call.
  test('a call that may outlive the function, and so the lease', () => {
    const message = refusal(() =>
      relayWith({
        OUTBOX_CALL_TIMEOUT_SECONDS: '10',
        OUTBOX_FUNCTION_TIMEOUT_SECONDS: '8',
        OUTBOX_LEASE_SECONDS: '9',
      }),
    );
    expect(message).toMatch(/OUTBOX_FUNCTION_TIMEOUT_SECONDS: 8 .*OUTBOX_CALL_TIMEOUT_SECONDS \(10\)/);
  });

  test('more claims under way than connections', () => {
    const message = refusal(() => relayWith({ OUTBOX_POOL_SIZE: '2', OUTBOX_CLAIMS_UNDERWAY: '3' }));
    expect(message).toMatch(/OUTBOX_POOL_SIZE: 2 .*OUTBOX_CLAIMS_UNDERWAY \(3, and one for ordering keys\)/);
  });

  test("a longest back-off below the relay's shortest", () => {
    const message = refusal(() =>
      relayWith({ OUTBOX_BACKOFF_BASE_SECONDS: '10', OUTBOX_BACKOFF_MAX_SECONDS: '9.5' }),
    );
    expect(message).toMatch(/OUTBOX_BACKOFF_MAX_SECONDS: 9\.5 .*OUTBOX_BACKOFF_BASE_SECONDS \(10\)/);
  });

  test('a record that comes again while it is being applied', () => {
    const message = refusal(() =>
      consumerWith({ OUTBOX_QUEUE_VISIBILITY_SECONDS: '179', OUTBOX_FUNCTION_TIMEOUT_SECONDS: '30' }),
    );
    expect(message).toMatch(
      /OUTBOX_QUEUE_VISIBILITY_SECONDS: 179 .*six times OUTBOX_FUNCTION_TIMEOUT_SECONDS \(30\)/,
    );
    consumerWith({ OUTBOX_QUEUE_VISIBILITY_SECONDS: '180', OUTBOX_FUNCTION_TIMEOUT_SECONDS: '30' });
  });

  test('more records at once than connections', () => {
    const message = refusal(() => consumerWith({ OUTBOX_CONCURRENCY: '6', OUTBOX_POOL_SIZE: '5' }));
    expect(message).toMatch(/OUTBOX_CONCURRENCY: 6 .*OUTBOX_POOL_SIZE \(5\)/);
  });

  test("a longest retry below the consumer's shortest", () => {
    const message = refusal(() =>
      consumerWith({ OUTBOX_RETRY_BASE_SECONDS: '30', OUTBOX_RETRY_MAX_SECONDS: '29' }),
    );
    expect(message).toMatch(/OUTBOX_RETRY_MAX_SECONDS: 29 .*OUTBOX_RETRY_BASE_SECONDS \(30\)/);
  });

  // Case C10.
  test('a ledger that forgets an event which can still be delivered, naming the sum', () => {
    const message = refusal(() =>
      pruneWith({
        OUTBOX_LEDGER_RETENTION_DAYS: '20',
        OUTBOX_QUEUE_RETENTION_DAYS: '4',
        OUTBOX_DEAD_LETTER_RETENTION_DAYS: '14',
        OUTBOX_REPLAY_HORIZON_DAYS: '3',
      }),
    );
    expect(message).toMatch(
      /OUTBOX_LEDGER_RETENTION_DAYS: 20 is below 21 = queue \(4\) \+ dead-letter \(14\) \+ replay \(3\)/,
    );
  });
});

describe('the database is said in exactly one way', () => {
  const secret = 'arn:aws:secretsmanager:eu-central-1:123456789012:secret:outbox-AbCdEf';
  const role = { DATABASE_USER: 'app', DATABASE_HOST: 'db.internal', DATABASE_NAME: 'shop' };

  test.each([
    ['a connection string', { DATABASE_URL }],
    ['one with TLS asked for', { DATABASE_URL: `${DATABASE_URL}?sslmode=require` }],
    ['one of this machine without TLS', { DATABASE_URL: 'postgresql://a:b@127.0.0.1/c?sslmode=disable' }],
    ['one of this machine by a socket', { DATABASE_URL: 'postgresql://a:b@%2Ftmp/c?sslmode=disable' }],
    ['one with TLS at once', { DATABASE_URL: `${DATABASE_URL}?sslnegotiation=direct` }],
    ['a password that pg takes as it is', { DATABASE_URL: 'postgresql://a:100%zz@db/c' }],
    ['a secret', { DATABASE_SECRET_ARN: secret, DATABASE_CA_FILE: '/var/runtime/ca-cert.pem' }],
    [
      'a secret behind a proxy',
      { DATABASE_SECRET_ARN: secret, DATABASE_HOST: 'proxy', DATABASE_PORT: '6432' },
    ],
    ['a role', role],
  ])('%s', (_, database: Environment) => {
    pruneConfig(database);
  });

  test.each([
    [{}, /DATABASE_URL: is not set, nor DATABASE_SECRET_ARN, nor DATABASE_USER/],
    [{ DATABASE_URL, DATABASE_SECRET_ARN: secret }, /DATABASE_URL: is set, and so is DATABASE_SECRET_ARN/],
    [{ DATABASE_SECRET_ARN: secret, ...role }, /DATABASE_SECRET_ARN: is set, and so is DATABASE_USER/],
    [{ DATABASE_URL, DATABASE_HOST: 'db' }, /DATABASE_HOST: does not go with DATABASE_URL/],
    [{ ...role, DATABASE_HOST: undefined }, /DATABASE_HOST: is not set; DATABASE_USER .* needs it/],
    [{ ...role, DATABASE_NAME: undefined }, /DATABASE_NAME: is not set; DATABASE_USER .* needs it/],
    [{ DATABASE_HOST: 'db.internal' }, /DATABASE_USER: is not set, and DATABASE_HOST is/],
    [{ DATABASE_SECRET_ARN: 'outbox' }, /DATABASE_SECRET_ARN: expected the ARN of a secret/],
    [{ ...role, DATABASE_PORT: '99999' }, /DATABASE_PORT: expected a whole number/],
    [
      { DATABASE_URL: `${DATABASE_URL}?sslmode=no-verify` },
      /DATABASE_URL: .*without checking the certificate/,
    ],
    [{ DATABASE_URL: `${DATABASE_URL}?ssl=no-verify` }, /DATABASE_URL: .*without checking the certificate/],
    [
      { DATABASE_URL: `${DATABASE_URL}?uselibpqcompat=true&sslmode=require` },
      /DATABASE_URL: .*without checking/,
    ],
    [
      { DATABASE_URL: `${DATABASE_URL}?sslmode=disable` },
      /DATABASE_URL: sslmode=disable .*this machine alone/,
    ],
    [{ DATABASE_URL: `${DATABASE_URL}?ssl=false` }, /DATABASE_URL: sslmode=disable .*this machine alone/],
    [{ DATABASE_URL: `${DATABASE_URL}?sslmode=strict` }, /DATABASE_URL: sslmode is none of/],
    [{ DATABASE_URL: `${DATABASE_URL}?sslrootcert=/ca.pem` }, /DATABASE_URL: sslrootcert .*DATABASE_CA_FILE/],
    [{ DATABASE_URL: 'postgresql://app:s3cr3t-pa55@db:port/shop' }, /DATABASE_URL: is not a valid URL/],
    [{ DATABASE_URL: 'postgresql://app:s3cr3t@%zz/shop' }, /DATABASE_URL: is not a valid URL/],
    [{ DATABASE_URL: 'postgresql://app:s3cr3t%ff@db/shop' }, /DATABASE_URL: is not a valid URL/],
    [
      { DATABASE_URL: 'postgresql://app:s3cr3t@/shop?host=/var/run/postgresql' },
      /DATABASE_URL: has no host after the @ .*%2Fvar%2Frun%2Fpostgresql/,
    ],
    // What pg takes for the host decides whether this is another machine.
    [{ DATABASE_URL: `${DATABASE_URL}?sslmode=disable&host=` }, /sslmode=disable .*this machine alone/],
    [
      { DATABASE_URL: 'postgresql://localhost/c?sslmode=disable&host=localhost&host=db' },
      /sslmode=disable .*this machine alone/,
    ],
    [{ DATABASE_URL: `${DATABASE_URL}?schema=public&schema=shop` }, /DATABASE_URL: schema is not read/],
    [{ DATABASE_URL: `${DATABASE_URL}?schema=shop` }, /DATABASE_URL: schema is not read; .*search_path/],
    [{ DATABASE_URL: `${DATABASE_URL}?sslnegotiation=never` }, /sslnegotiation is neither/],
    [
      { DATABASE_URL: 'postgresql://localhost/c?sslmode=disable&sslnegotiation=direct' },
      /sslnegotiation=direct does not go with sslmode=disable/,
    ],
  ])('%o is refused', (database: Environment, message) => {
    const said = refusal(() => pruneConfig(database));
    expect(said).toMatch(message);
    expect(said).not.toContain('s3cr3t');
  });

  test('what is not set says what it is for, and nothing of types', () => {
    const said = refusal(() => consumerConfig({}));
    expect(said).toContain('OUTBOX_QUEUE_URL: is not set. The queue that triggers the consumer');
    expect(said).not.toContain('Invalid input');
  });
});

describe('what is not understood stops the cold start, naming the key', () => {
  test.each([
    ['DATABASE_URL', relayWith],
    ['OUTBOX_DESTINATIONS', relayWith],
    ['DATABASE_URL', consumerWith],
    ['OUTBOX_QUEUE_URL', consumerWith],
    ['DATABASE_URL', pruneWith],
  ])('%s is missing', (key, read) => {
    expect(refusal(() => read({ [key]: undefined }))).toContain(`${key}: is not set`);
  });

  test.each([
    ['OUTBOX_LEASE_SECOND', '60'],
    ['OUTBOX_lease_seconds', '60'],
    ['OUTBOX_', ''],
  ])('a misspelt %s does not leave the default in force', (key, value) => {
    expect(refusal(() => relayWith({ [key]: value }))).toContain(`${key}: no such setting`);
  });

  test.each([
    ['OUTBOX_LEASE_SECONDS', ''],
    ['OUTBOX_LEASE_SECONDS', '30s'],
    ['OUTBOX_LEASE_SECONDS', '-30'],
    ['OUTBOX_LEASE_SECONDS', '1e3'],
    ['OUTBOX_LEASE_SECONDS', 'NaN'],
    ['OUTBOX_LEASE_SECONDS', '0'],
    ['OUTBOX_LEASE_SECONDS', '3601'],
    ['OUTBOX_CLAIM_LIMIT', '10.5'],
    ['OUTBOX_CLAIM_LIMIT', '0'],
    ['OUTBOX_CLAIM_LIMIT', '1001'],
    ['OUTBOX_MAX_ATTEMPTS', '0'],
    ['OUTBOX_KEEP_PUBLISHED', 'yes'],
    ['DATABASE_URL', 'mysql://root@db/shop'],
    ['OUTBOX_DESTINATIONS', 'stock=https://sqs'],
    ['OUTBOX_DESTINATIONS', '["stock"]'],
    ['OUTBOX_DESTINATIONS', '{"stock":{"kind":"kafka","queueUrl":"https://sqs"}}'],
    ['OUTBOX_DESTINATIONS', '{"stock":{"kind":"sqs"}}'],
    ['OUTBOX_DESTINATIONS', '{"stock":{"kind":"sqs","queueUrl":"arn:aws:sqs:eu-central-1:1:stock"}}'],
    ['OUTBOX_DESTINATIONS', '{"stock":{"kind":"sqs","queueUrl":"https://sqs","maxBytes":1048577}}'],
    ['OUTBOX_DESTINATIONS', '{"stock":{"kind":"sqs","queueUrl":"https://sqs","maxByte":1024}}'],
  ])('%s=%s', (key, value) => {
    expect(refusal(() => relayWith({ [key]: value }))).toContain(key);
  });

  // Each tick would end at once, with success, and events would pile up unseen.
  test('a relay without any destination', () => {
    expect(refusal(() => relayWith({ OUTBOX_DESTINATIONS: '{}' }))).toContain('OUTBOX_DESTINATIONS');
  });

  // recordEvents takes no such name, so no event could ever go there.
  test('a destination under a name that no event can have', () => {
    const OUTBOX_DESTINATIONS = JSON.stringify({ 'stock queue': destination });
    expect(refusal(() => relayWith({ OUTBOX_DESTINATIONS }))).toContain('OUTBOX_DESTINATIONS');
  });

  test('every problem at once, so that one deployment finds them all', () => {
    const message = refusal(() =>
      relayWith({ DATABASE_URL: undefined, OUTBOX_CLAIM_LIMIT: 'all', OUTBOX_TYPO: '1' }),
    );
    expect(message).toContain('DATABASE_URL');
    expect(message).toContain('OUTBOX_CLAIM_LIMIT');
    expect(message).toContain('OUTBOX_TYPO');
  });
});

describe('secrets never appear in a message', () => {
  const secret = 's3cr3t-pa55';
  test.each([
    ['in a database URL of another kind', { DATABASE_URL: `mysql://app:${secret}@db/shop` }],
    ['in a connection string without a scheme', { DATABASE_URL: `app:${secret}@db` }],
    ['beside another mistake', { OUTBOX_LEASE_SECONDS: 'long' }],
    ['in a variable that we do not know', { OUTBOX_DATABASE_URL: `postgresql://app:${secret}@db/shop` }],
    ['in a connection string in the place of JSON', { OUTBOX_DESTINATIONS: `postgres://a:${secret}@db` }],
    // V8 quotes a short text whole when it is not JSON, and a part of a longer one.
    ['in the place of JSON', { OUTBOX_DESTINATIONS: secret }],
    ['in the place of a number', { OUTBOX_LEASE_SECONDS: secret }],
    ['in the place of a URL', { OUTBOX_DESTINATIONS: `{"stock":{"kind":"sqs","queueUrl":"${secret}"}}` }],
  ])('%s', (_, environment: Environment) => {
    const message = refusal(() => relayWith(environment));
    expect(message).not.toContain(secret);
    expect(message).not.toContain('s3cr');
  });
});
