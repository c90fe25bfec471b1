// Turns a database into one on which things go wrong. Settings hold for sessions opened afterwards.

import { randomBytes } from 'node:crypto';
import { escapeIdentifier, escapeLiteral } from 'pg';
import { afterwards } from './cleanup.ts';
import { admin, ONLOOKER, type TestDatabase } from './database.ts';

/** What PostgreSQL's planner may be forbidden, by the name after `enable_`. */
export type PlannerSwitch =
  | 'bitmapscan'
  | 'hashagg'
  | 'hashjoin'
  | 'indexonlyscan'
  | 'indexscan'
  | 'material'
  | 'mergejoin'
  | 'nestloop'
  | 'seqscan'
  | 'sort';

/** `ALTER DATABASE … SET name = value`. Throws what PostgreSQL says, such as an unknown name. */
export async function setForDatabase(db: TestDatabase, name: string, value: string): Promise<void> {
  const setting = name.split('.').map(escapeIdentifier).join('.');
  await admin().query(`ALTER DATABASE ${escapeIdentifier(db.name)} SET ${setting} = ${escapeLiteral(value)}`);
}

/** @param zone such as America/New_York */
export const setTimeZone = (db: TestDatabase, zone: string): Promise<void> =>
  setForDatabase(db, 'TimeZone', zone);

/** Language of error messages; which ones exist depends on the server (the embedded one has only C). Needs a superuser. */
export const setMessages = (db: TestDatabase, locale: string): Promise<void> =>
  setForDatabase(db, 'lc_messages', locale);

/** What a promoted or maintained server does: every transaction of a new session is read-only. */
export const setReadOnly = (db: TestDatabase, readOnly: boolean): Promise<void> =>
  setForDatabase(db, 'default_transaction_read_only', readOnly ? 'on' : 'off');

/** Forbids the planner these ways; it then takes the plan it would otherwise only take on another table's figures. */
export async function forbidPlans(db: TestDatabase, ...switches: PlannerSwitch[]): Promise<void> {
  for (const name of switches) await setForDatabase(db, `enable_${name}`, 'off');
}

/** A session of the database, other than the test's own look at it. */
export interface Session {
  pid: number;
  /** As in pg_stat_activity: active, idle, idle in transaction, … */
  state: string;
  /** The running statement, or the last one. */
  query: string;
}

/** The sessions others have on the database: none of them should be "idle in transaction" in the end. */
export async function sessions(db: TestDatabase): Promise<Session[]> {
  const { rows } = await admin().query<Session>(
    `SELECT pid, state, query FROM pg_stat_activity
     WHERE datname = $1 AND backend_type = 'client backend' AND application_name <> $2 ORDER BY backend_start`,
    [db.name, ONLOOKER],
  );
  return rows;
}

/**
 * `pg_terminate_backend` for the sessions that `which` picks, all by default: their clients see 57P01.
 * @returns how many.
 */
export async function terminateSessions(
  db: TestDatabase,
  which: (session: Session) => boolean = () => true,
): Promise<number> {
  const pids = (await sessions(db)).filter(which).map((session) => session.pid);
  const { rowCount } = await admin().query(
    'SELECT 1 FROM unnest($1::int[]) pid WHERE pg_terminate_backend(pid)',
    [pids],
  );
  return rowCount ?? 0;
}

/** Which changes a trigger meets: of a table, the first `times` (1 by default) for which `when` holds. */
export interface TriggerOn {
  table: string;
  /** INSERT by default. */
  on?: 'INSERT' | 'UPDATE' | 'DELETE';
  /** SQL over NEW and OLD, such as `NEW.state = 'PUBLISHED'`; every row by default. */
  when?: string;
  /** Changes that are met; counted even when their transaction is rolled back. */
  times?: number;
}

/** How often a trigger has acted so far. */
export type Acted = () => Promise<number>;

/**
 * Makes a change fail with a SQLSTATE, such as 40001 or 53300.
 * @param at `commit` lets the statement pass and fails the transaction's COMMIT.
 */
export function raiseOn(
  db: TestDatabase,
  { sqlState, at = 'row', ...on }: TriggerOn & { sqlState: string; at?: 'row' | 'commit' },
): Promise<Acted> {
  const raise = `RAISE EXCEPTION USING ERRCODE = ${escapeLiteral(sqlState)}, MESSAGE = 'raised by the test';`;
  return addTrigger(db, on, raise, at === 'commit');
}

/** Makes a change take this long. */
export function delayOn(
  db: TestDatabase,
  { seconds, ...on }: TriggerOn & { seconds: number },
): Promise<Acted> {
  return addTrigger(db, on, `PERFORM pg_sleep(${seconds});`, false);
}

async function addTrigger(
  db: TestDatabase,
  { table, on = 'INSERT', when = 'true', times = 1 }: TriggerOn,
  action: string,
  deferred: boolean,
): Promise<Acted> {
  const name = `test_${randomBytes(4).toString('hex')}`;
  // A sequence counts on through a rollback, which is what most of these triggers bring about.
  await db.sql(`CREATE SEQUENCE ${name}`);
  await db.sql(`CREATE FUNCTION ${name}() RETURNS trigger LANGUAGE plpgsql AS $body$
    BEGIN
      IF nextval('${name}') <= ${times} THEN ${action} END IF;
      RETURN coalesce(NEW, OLD);
    END $body$`);
  const head = deferred ? `CONSTRAINT TRIGGER ${name} AFTER` : `TRIGGER ${name} BEFORE`;
  const deferral = deferred ? 'DEFERRABLE INITIALLY DEFERRED' : '';
  await db.sql(
    `CREATE ${head} ${on} ON ${escapeIdentifier(table)} ${deferral} FOR EACH ROW WHEN (${when}) EXECUTE FUNCTION ${name}()`,
  );
  return async () => {
    const [count] = await db.sql<{ n: number }>(
      `SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS n FROM ${name}`,
    );
    return Math.min(count?.n ?? 0, times);
  };
}

/**
 * A role without privileges beyond the tables of this database, as an application has it.
 * @param connectionLimit connections it may hold; one more is refused with 53300, as when max_connections are used up
 *   (a superuser's limit PostgreSQL does not enforce). Making a role needs a superuser.
 * @returns the database's URL for that role.
 */
export async function createRole(
  db: TestDatabase,
  { connectionLimit = -1 }: { connectionLimit?: number } = {},
): Promise<string> {
  const name = `outbox_test_role_${randomBytes(6).toString('hex')}`;
  const password = randomBytes(12).toString('hex');
  await admin().query(`CREATE ROLE ${name} LOGIN PASSWORD '${password}' CONNECTION LIMIT ${connectionLimit}`);
  afterwards(async () => {
    // What it was granted goes with the database; only then can the role go.
    await db.drop();
    await admin().query(`DROP ROLE ${name}`);
  });
  await db.sql(`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO ${name}`);
  await db.sql(`GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO ${name}`);
  const url = new URL(db.url);
  url.username = name;
  url.password = password;
  return url.href;
}
