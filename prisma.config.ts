import { defineConfig } from 'prisma/config';

const url = process.env['DATABASE_URL'];

export default defineConfig({
  schema: 'prisma/schema.prisma',
  migrations: { path: 'prisma/migrations' },
  // `prisma generate` needs no database; `prisma migrate deploy` does.
  ...(url ? { datasource: { url } } : {}),
});
