// The end of a history: faults have stopped, and everybody goes on until there is nothing left to do.

import { setTimeout as sleep } from 'node:timers/promises';
import { countdown, type TimeLeft } from '../../functions/shared/deadline.ts';
import type { Violation } from './checker.ts';
import { doErrand } from './errands.ts';
import { DEAD_LETTERS, QUEUES } from './program.ts';
import type { World } from './world.ts';

const LOOK_EVERY_MS = 60;
/**
 * It is given up when neither the database nor a queue has changed for so long: far above every lease, back-off,
 * visibility timeout and invocation. How fast it moves depends on the machine, and is no promise.
 */
export const STILL_MS = 60_000;
/** What moves for ever, such as an event that is claimed and released again and again, is given up too. */
const ENDLESS_MS = 600_000;

/** Waits for rest, while a person mends, redrives and, where the program says so, replays. */
export async function comeToRest(world: World, delivered: () => boolean): Promise<Violation[]> {
  const { program, timeline } = world;
  await world.sql('INSERT INTO mended DEFAULT VALUES');
  timeline.add('a person', 'mends the poison');
  const endless = countdown(ENDLESS_MS);
  const still = stillness();
  for (;;) {
    const left = await outboxLeft(world);
    const { waiting, parked } = left;
    if (parked > 0 && program.replaysInTheEnd) await doErrand(world, 'replay');
    await doErrand(world, 'redrive');
    const done = waiting === 0 && (parked === 0 || !program.replaysInTheEnd);
    if (done && world.underway === 0 && delivered() && queuesAreEmpty(world)) return [];
    const givenUp = whyGivenUp(still(`${left.seen} ${seenOfQueues(world)}`), endless);
    if (givenUp) {
      const what = `${waiting} events wait, ${parked} are parked, and ${givenUp}`;
      return [{ promise: 'it comes to rest', what, ids: left.ids }];
    }
    await sleep(LOOK_EVERY_MS);
  }
}

const whyGivenUp = (still: TimeLeft, endless: TimeLeft): string | undefined => {
  if (still() < 0) return `nothing has changed for ${STILL_MS / 1_000} s`;
  return endless() < 0 ? `it goes on for ever: ${ENDLESS_MS / 1_000} s` : undefined;
};

/** @returns for what is seen now, the time until it has been the same for too long. */
export function stillness(startCountdown = countdown): (seen: string) => TimeLeft {
  let last: string | undefined;
  let left = startCountdown(STILL_MS);
  return (seen) => {
    if (seen !== last) left = startCountdown(STILL_MS);
    last = seen;
    return left;
  };
}

const messagesOf = ({ sqs }: World) =>
  [...Object.values(QUEUES), DEAD_LETTERS].flatMap((queue) => sqs.stored(queue));

const queuesAreEmpty = (world: World): boolean => messagesOf(world).every(({ deleted }) => deleted);

const seenOfQueues = (world: World): string =>
  messagesOf(world)
    .map(({ deleted, receiveCount }) => (deleted ? 'x' : receiveCount))
    .join(' ');

interface OutboxLeft {
  readonly waiting: number;
  readonly parked: number;
  /** Of those that wait. */
  readonly ids: string[];
  /** Differs whenever anything in the database does. */
  readonly seen: string;
}

/** Pending rows, without those that wait behind a parked event of their key, and parked rows. */
async function outboxLeft({ sql, program }: World): Promise<OutboxLeft> {
  const [row] = await sql<{ parked: number; ids: string[] | null; seen: string }>(
    `WITH outbox AS (
       SELECT e.*, state = 'PENDING' AND NOT ($1 AND EXISTS (
         SELECT FROM outbox_event AS head WHERE head.destination = e.destination AND head.state = 'PARKED'
           AND head.ordering_key = e.ordering_key AND head.sequence < e.sequence)) AS waits
       FROM outbox_event AS e)
     SELECT count(*) FILTER (WHERE state = 'PARKED')::int AS parked,
       array_agg(event_id::text) FILTER (WHERE waits) AS ids,
       concat_ws(' ', md5(string_agg(outbox::text, ',' ORDER BY sequence)), (SELECT count(*) FROM applied_event),
         (SELECT count(*) FROM effect)) AS seen
     FROM outbox`,
    [program.settings.parkedHead === 'hold'],
  );
  const ids = row?.ids ?? [];
  return { waiting: ids.length, parked: row?.parked ?? 0, ids, seen: row?.seen ?? '' };
}
