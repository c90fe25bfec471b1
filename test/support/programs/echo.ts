// Shows what a program run by startProcess can do: answers each message with how it sees the world.

import { createPrisma } from '../prisma.ts';

console.log('started');
process.send?.({ started: true });

process.on('message', ({ value }: { value: unknown }) => {
  void answer(value);
});

async function answer(value: unknown): Promise<void> {
  const url = process.env['DATABASE_URL'];
  const events = url === undefined ? undefined : await countEvents(url);
  process.send?.({
    echo: value,
    node: process.version,
    hours: new Date(0).getHours(),
    now: Date.now(),
    sameDay: new Date().getTime() - Date.now() < 1_000,
    events,
  });
}

async function countEvents(url: string): Promise<number> {
  const prisma = createPrisma(url, { max: 1 });
  const events = await prisma.outboxEvent.count();
  await prisma.$disconnect();
  return events;
}
