// The roles that deploy.md has an administrator make are enough for the functions, and no more than that.

import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { expect, inject, test } from 'vitest';
import { deployMigrations } from '../functions/migrate/migrate.ts';
import { afterwards } from './support/cleanup.ts';
import { admin, createDatabase, openSession } from './support/database.ts';

const guide = await readFile('docs/deploy.md', 'utf8');
const [, , sql = ''] = /### The database and its roles\n([^]*?)```sql\n([^]*?)```/.exec(guide) ?? [];
const [common = '', either = '', or = ''] = sql.split(/^-- (?:Either|Or): .*$/m);

/** Runs a way of the guide in a database of its own, as an administrator who, as on RDS, is no superuser. */
async function prepare(way: string) {
  const db = await createDatabase({ migrated: false });
  const suffix = randomBytes(4).toString('hex');
  const role = { boss: `boss_${suffix}`, outbox: `outbox_${suffix}`, migrator: `outbox_migrator_${suffix}` };
  await admin().query(`CREATE ROLE ${role.boss} LOGIN CREATEROLE PASSWORD 'secret'`);
  await admin().query(`ALTER DATABASE "${db.name}" OWNER TO ${role.boss}`);
  afterwards(async () => {
    await db.drop();
    for (const name of [role.migrator, role.outbox, role.boss])
      await admin().query(`DROP ROLE IF EXISTS ${name}`);
  });
  const urlAs = (name: string) => {
    const url = new URL(db.url);
    Object.assign(url, { username: name, password: 'secret' });
    return url.href;
  };
  const statements = (common + way)
    .replace(/^(CREATE DATABASE outbox;|\\connect outbox)$/gm, '')
    .replaceAll('…', 'secret')
    .replaceAll(/\boutbox_migrator\b/g, role.migrator)
    .replaceAll(/\boutbox\b/g, role.outbox);
  await (await openSession(urlAs(role.boss))).query(statements);
  const migrate = (name: string) =>
    deployMigrations({ connectionString: urlAs(name), directory: 'prisma/migrations' });
  return { role, migrate, work: () => openSession(urlAs(role.outbox)) };
}

const RECORD = `INSERT INTO outbox_event (event_id, destination, source, type, payload)
  VALUES (gen_random_uuid(), 'stock', '/orders', 'order.placed', '{}')`;

// Making roles needs a superuser.
const asSuperuser = test.skipIf(!inject('server').superuser);

asSuperuser('one role migrates and works', async () => {
  const { role, migrate, work } = await prepare(either);
  expect((await migrate(role.outbox)).length).toBeGreaterThan(0);
  expect((await (await work()).query(RECORD)).rowCount).toBe(1);
});

asSuperuser('another role migrates, and the first can only work', async () => {
  const { role, migrate, work } = await prepare(or);
  expect((await migrate(role.migrator)).length).toBeGreaterThan(0);
  const session = await work();
  expect((await session.query(RECORD)).rowCount).toBe(1);
  await session.query('UPDATE outbox_event SET attempts = 1; SELECT * FROM applied_event');
  expect((await session.query('DELETE FROM outbox_event')).rowCount).toBe(1);
  await expect(session.query('DROP TABLE outbox_event')).rejects.toMatchObject({ code: '42501' });
});
