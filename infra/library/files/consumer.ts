// Yours: what becomes of each event, through `tx` alone. It is applied once, however often the message comes.
import { consumer, consumerConfig, databaseAdapter } from 'prisma-outbox-relay';
import { PrismaClient } from '<client>';
import { events } from './events<extension>';

const config = consumerConfig(process.env);

export const handler = consumer({
  // Its name in the ledger; another name applies every event again.
  name: 'example',
  events,
  effects: {
    // Your writes. What an effect does beside `tx` may happen more than once.
    'example.happened': async (tx, { data }) => {
      await tx.$queryRaw`SELECT ${data.name}`;
    },
  },
  prisma: new PrismaClient({ adapter: databaseAdapter(config) }),
  config,
});
