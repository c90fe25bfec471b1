import * as z from 'zod';
import { databaseProblems } from './database-settings.ts';
import { ConfigurationError } from './errors.ts';

/** A variable of the environment, as text. Never logged. */
export type Environment = Readonly<Record<string, string | undefined>>;

type Shape = Record<string, z.ZodType>;

const decimal = z
  .string()
  .regex(/^\d+(\.\d+)?$/, 'expected a number')
  .transform(Number);

/** A number of seconds, days, …, above zero, written in decimal. */
export const positive = (max = Number.MAX_SAFE_INTEGER) =>
  decimal.refine((n) => n > 0 && n <= max, `expected a number above 0 and at most ${max}`);

/** A whole number in a closed range. */
export const integer = (min: number, max: number) =>
  decimal.refine(
    (n) => Number.isInteger(n) && n >= min && n <= max,
    `expected a whole number from ${min} to ${max}`,
  );

/** An http(s) address. */
export const address = z.url({ protocol: /^https?$/, error: 'expected an http(s) URL' });

/** A PostgreSQL connection string; its text never appears in an error. */
export const databaseUrl = z
  .string()
  .regex(/^postgres(ql)?:\/\//, 'expected a postgresql:// connection string (its value is not shown)');

/** The variable of a setting: `leaseSeconds` is `OUTBOX_LEASE_SECONDS`, `databaseUrl` is `DATABASE_URL`. */
export function variableOf(setting: string): string {
  const snake = setting.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase();
  return snake.startsWith('DATABASE_') ? snake : `OUTBOX_${snake}`;
}

/**
 * Reads the settings of `shape` from the environment, once, into a closed typed object.
 *
 * @param check contradictions between settings, each a sentence that names both values
 * @throws ConfigurationError with every problem found: missing, malformed, contradictory, or an `OUTBOX_…` variable
 *   that no setting reads (a misspelling)
 */
export function readConfig<S extends Shape>(
  shape: S,
  environment: Environment,
  check: (config: z.output<z.ZodObject<S>>) => string[] = () => [],
): z.output<z.ZodObject<S>> {
  const settings = Object.keys(shape);
  const known = new Set(settings.map(variableOf));
  const unknown = Object.keys(environment)
    .filter((key) => key.startsWith('OUTBOX_') && !known.has(key))
    .map((key) => `${key}: no such setting; expected one of ${[...known].join(', ')}`);
  const given = Object.fromEntries(settings.map((setting) => [setting, environment[variableOf(setting)]]));
  const parsed = z.object(shape).safeParse(given);
  const malformed = (parsed.error?.issues ?? []).map((issue) => {
    const {
      path: [setting, ...rest],
    } = issue;
    // A record's key: what is wrong with it is one level down.
    const message = (issue.code === 'invalid_key' && issue.issues[0]?.message) || issue.message;
    const at = [variableOf(String(setting)), ...rest].join('.');
    if (given[String(setting)] !== undefined) return `${at}: ${message}`;
    return `${at}: is not set. ${plain(shape[String(setting)]?.description ?? message)}`;
  });
  const problems = [
    ...unknown,
    ...malformed,
    ...('databaseUrl' in shape ? databaseProblems(environment) : []),
    ...(parsed.success ? check(parsed.data) : []),
  ];
  if (problems.length > 0 || !parsed.success) throw new ConfigurationError(problems);
  return parsed.data;
}

/** A description without its links: an error has no page for them. */
const plain = (markdown: string) => markdown.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1');

/** Where the database is, in one of three ways; what goes together is checked in database-settings.ts. */
export const connectionShape = {
  databaseUrl: databaseUrl
    .optional()
    .describe('A connection string. Or, instead of it, one of the next two.'),
  databaseSecretArn: z
    .string()
    .regex(/^arn:[\w-]+:secretsmanager:[\w-]+:\d{12}:secret:.+$/, 'expected the ARN of a secret')
    .optional()
    .describe(
      'A Secrets Manager secret as RDS keeps it (`username`, `password`, `host`, `port`, `dbname`), read with the first connection, and again when its password was rotated.',
    ),
  databaseUser: z
    .string()
    .min(1)
    .optional()
    .describe('A role that authenticates with IAM: each connection has a fresh token for password.'),
  databaseHost: z
    .string()
    .min(1)
    .optional()
    .describe('Host, for the role; with a secret, in place of its own (an RDS Proxy, say).'),
  databasePort: integer(1, 65_535).optional().describe("Port; the secret's own, or 5432."),
  databaseName: z
    .string()
    .min(1)
    .optional()
    .describe('Database, for the role; with a secret, in place of its own.'),
  databaseCaFile: z
    .string()
    .min(1)
    .optional()
    .describe(
      "PEM file with the authorities that may sign the server's certificate, in place of Node's; `/var/runtime/ca-cert.pem` on Lambda has those of RDS.",
    ),
};

/** Settings every function shares that opens a pool. */
export const databaseShape = {
  ...connectionShape,
  poolSize: integer(1, 100).prefault('5').describe('Connections this sandbox may open.'),
};

/** Reads a JSON text into a value of `schema`. */
export const json = <S extends z.ZodType>(schema: S) =>
  z
    .string()
    .transform((text, context) => {
      try {
        return JSON.parse(text) as unknown;
      } catch {
        context.addIssue({ code: 'custom', message: 'expected JSON text' });
        return z.NEVER;
      }
    })
    .pipe(schema);
