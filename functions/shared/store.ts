/**
 * The engine's only door to the database: plain SQL through the caller's own Prisma client.
 * Prisma 8 renames its transaction API; only this file knows Prisma's names.
 */

/** The raw calls that both a Prisma client and a transaction client of it offer. */
export interface RawClient {
  $queryRawUnsafe<T>(text: string, ...values: unknown[]): PromiseLike<T>;
  $executeRawUnsafe(text: string, ...values: unknown[]): PromiseLike<number>;
}

/** What `prisma.$transaction(async (tx) => …)` hands to its callback. A root client has `$connect` and does not type-check. */
export interface TransactionClient extends RawClient {
  readonly $connect?: never;
}

/** A Prisma client; `Tx` is the type of its transaction client. */
export interface RootClient<Tx extends TransactionClient = TransactionClient> extends RawClient {
  $transaction<T>(
    body: (tx: Tx) => Promise<T>,
    options?: { maxWait?: number; timeout?: number },
  ): PromiseLike<T>;
}

/** Runs one statement at a time. Values are positional (`$1` is `values[0]`). */
export interface Store {
  /** Rows of a statement that returns some. */
  query<Row>(text: string, values: readonly unknown[]): Promise<Row[]>;
  /** Number of rows that the statement changed. */
  execute(text: string, values: readonly unknown[]): Promise<number>;
}

/** A store over a Prisma client or a transaction client. Statements stay unnamed, so no cached generic plan outlives the table's size. */
export function storeOf(client: RawClient): Store {
  return {
    query: async <Row>(text: string, values: readonly unknown[]) =>
      client.$queryRawUnsafe<Row[]>(text, ...values),
    execute: async (text, values) => client.$executeRawUnsafe(text, ...values),
  };
}

/** SQL for a time as RFC 3339 text in UTC, to the microsecond; no time zone or date style of the session has a say. */
export const rfc3339 = (time: string) =>
  `to_char(${time} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;

const WRITE_CONFLICTS = new Set(['P2034', '40P01', '40001']);
const CONFLICT_TRIES = 3;

/** Whether PostgreSQL chose this statement to end a deadlock (40P01) or a serialization failure (40001). */
export function isWriteConflict(error: unknown): boolean {
  for (let at: unknown = error, depth = 0; at && depth < 5; depth += 1) {
    const { code, originalCode, cause, meta } = at as Record<string, unknown>;
    if (WRITE_CONFLICTS.has(String(code)) || WRITE_CONFLICTS.has(String(originalCode))) return true;
    const { code: raw, driverAdapterError } = (meta ?? {}) as Record<string, unknown>;
    if (WRITE_CONFLICTS.has(String(raw))) return true;
    at = driverAdapterError ?? cause;
  }
  return false;
}

/**
 * Runs a single statement again, up to three times in all, when it lost a deadlock or a serialization check.
 * Safe for claim and settle alone: a claim that failed claimed nothing, a settle is fenced.
 */
export async function onWriteConflictAgain<T>(statement: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await statement();
    } catch (error) {
      if (tries >= CONFLICT_TRIES || !isWriteConflict(error)) throw error;
    }
  }
}
