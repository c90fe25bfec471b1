// What befalls a whole server, and the server that it befalls.

import { setTimeout as sleep } from 'node:timers/promises';
import { Client, DatabaseError } from 'pg';
import { restartServer, startTestServer, urlOf } from '../support/server.ts';
import { until } from '../support/wait.ts';
import type { Disaster } from './program.ts';
import { ONLOOKER, prepareGround, type Ground, type World } from './world.ts';

/** Of the server that disasters befall: a crowd must be able to take them all. */
const CONNECTIONS = 70;
const CROWD_MS = 600;

/** Brings about the program's disasters, each at its time. */
export async function strikeDisasters(world: World): Promise<void> {
  for (const { afterMs, what } of world.program.disasters) {
    await sleep(afterMs);
    world.underway += 1;
    await DISASTERS[what](world);
    world.underway -= 1;
  }
}

const DISASTERS: Record<Disaster['what'], (world: World) => Promise<void>> = {
  restart: (world) => restart(world, 'fast'),
  crash: (world) => restart(world, 'immediate'),
  crowd,
};

async function restart({ url, timeline }: World, mode: 'fast' | 'immediate'): Promise<void> {
  const what = mode === 'fast' ? 'restart' : 'crash';
  timeline.add('the server', `begins a ${what}`);
  await restartServer(url, mode);
  timeline.strike(`server ${what}`, 'the server', 'is back');
}

/** Strangers take every connection there is, and those that everybody loses, for a while. */
async function crowd(world: World): Promise<void> {
  const strangers = gatherStrangers(world.url);
  try {
    await until(() => strangers.refused() > 0, { within: 60_000, message: 'no connection is left' });
    // On a connection of theirs: the onlooker may have lost its own, and gets no new one.
    await strangers.oust();
    await sleep(CROWD_MS);
    const refused = strangers.refused();
    world.timeline.strike('server crowd', 'the server', `has no connection left for ${refused} strangers`);
  } finally {
    await strangers.leave();
  }
}

/** Eight at a time, they come until they are to leave. */
function gatherStrangers(url: string) {
  const connected: Client[] = [];
  const database = new URL(url).pathname.slice(1);
  // In another database, where no fault is meant for them.
  const connectionString = urlOf(url, 'postgres');
  let refused = 0;
  const leaving = new AbortController();
  const comeIn = async () => {
    const stranger = new Client({ connectionString });
    stranger.on('error', () => undefined);
    try {
      await stranger.connect();
      connected.push(stranger);
    } catch (error) {
      // "sorry, too many clients already"
      if (error instanceof DatabaseError && error.code === '53300') refused += 1;
      await sleep(5);
    }
  };
  const keepComing = async () => {
    while (!leaving.signal.aborted) await comeIn();
  };
  const coming = Promise.all(Array.from({ length: 8 }, keepComing));
  return {
    refused: () => refused,
    oust: () =>
      connected[0]?.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND application_name <> $2`,
        [database, ONLOOKER],
      ),
    leave: async () => {
      leaving.abort();
      await coming;
      await Promise.all(connected.map((stranger) => stranger.end()));
    },
  };
}

/** A second server, embedded and started when it is first needed, of which one history at a time has the use. */
export interface SpareServer {
  readonly use: <T>(body: (server: Ground['server']) => Promise<T>) => Promise<T>;
  readonly stop: () => Promise<void>;
}

export function spareServer(): SpareServer {
  let started: ReturnType<typeof startTestServer> | undefined;
  let last: Promise<unknown> = Promise.resolve();
  return {
    use: (body) => {
      const turn = last.then(async () => body((await (started ??= startSpare())).server));
      last = turn.catch(() => undefined);
      return turn;
    },
    stop: async () => (await started)?.stop(),
  };
}

async function startSpare(): ReturnType<typeof startTestServer> {
  const spare = await startTestServer(undefined, { settings: { max_connections: String(CONNECTIONS) } });
  await prepareGround(spare.server);
  return spare;
}
