/** Two families: what may succeed on a later try (any other error) and what never will. */

/** Thrown by an effect when no retry can help: the event goes to the dead-letter queue at once, with this message as its reason. */
export class TerminalError extends Error {
  override readonly name = 'TerminalError';
}

/** Whether a thrown value is a `TerminalError`, also of another copy of this package. Never throws. */
export function isTerminal(error: unknown): boolean {
  try {
    return error instanceof TerminalError || (error as Error | null)?.name === 'TerminalError';
  } catch {
    return false;
  }
}

/** An event that cannot be recorded; nothing was sent to the database. `field` is its path, such as `events[2].payload.total`. */
export class InvalidEventError extends Error {
  override readonly name = 'InvalidEventError';
  readonly field: string;

  constructor(field: string, problem: string, options?: ErrorOptions) {
    super(`${field}: ${problem}`, options);
    this.field = field;
  }
}

/** A setting that is missing, malformed, unknown or in contradiction with another; stops the cold start. */
export class ConfigurationError extends Error {
  override readonly name = 'ConfigurationError';

  constructor(problems: readonly string[]) {
    super(`Configuration refused:\n${problems.map((problem) => `  - ${problem}`).join('\n')}`);
  }
}

/** A one-line account of any thrown value, with its causes, at most `max` characters. Never throws, never empty. */
export function describeError(error: unknown, max = 500): string {
  try {
    return account(error, max) || 'nothing was said';
  } catch {
    // A getter that throws, an object without a prototype: what is thrown may be anything.
    return 'a value that cannot be described';
  }
}

function account(error: unknown, max: number): string {
  const parts: string[] = [];
  let at = error;
  for (let depth = 0; at && depth < 4; depth += 1) {
    const { name, code, cause, message } = at as Record<string, unknown>;
    const label = [name, code].filter((word) => typeof word === 'string' && word !== 'Error').join(' ');
    // An error of another realm is no instance of ours; adapter-pg's causes are plain objects, some without a word.
    const said =
      typeof message === 'string' ? messageOf(name, message) : typeof at === 'object' ? '' : String(at);
    parts.push([label, said].filter(Boolean).join(': '));
    at = cause;
  }
  return oneLine(parts.filter(Boolean).join(' < ') || String(error), max);
}

/** Text that fits into a log line, a column and a message attribute: one line, no control characters, at most `max` long. */
export function oneLine(text: string, max = 500): string {
  // PostgreSQL refuses NUL, SQS the others.
  return text
    .replace(/[\s\p{Cc}]+/gu, ' ')
    .slice(0, max)
    .toWellFormed();
}

/**
 * Prisma shows the whole call, with its data, before it says what is wrong with it in the last line, and PostgreSQL
 * quotes a value that it refuses: `invalid input syntax for type uuid: "…"`. Data has no place in a log.
 */
function messageOf(name: unknown, message: string): string {
  const fromPrisma = String(name).startsWith('PrismaClient');
  if (!fromPrisma && typeof name === 'string' && !FROM_DATABASE.has(name)) return message;
  const unquoted = message.trim().replace(/(: |value )".*"/gs, '$1"…"');
  return fromPrisma ? (unquoted.split('\n').at(-1) ?? '') : unquoted;
}

/** Names of errors that carry PostgreSQL's own words: adapter-pg's, and pg's. So do objects without a name. */
const FROM_DATABASE = new Set(['DriverAdapterError', 'error']);
