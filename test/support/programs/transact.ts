// One transaction through the functions' own pool: says how it ended.

import { connect } from '../../../functions/shared/database.ts';

const prisma = connect({ databaseUrl: process.env['DATABASE_URL'] ?? '', poolSize: 1 });
const end = await prisma
  .$transaction((tx) => tx.$queryRawUnsafe('SELECT 1'))
  .then(
    () => 'committed',
    () => 'rejected',
  );
process.send?.({ end });
await prisma.$disconnect();
process.disconnect();
