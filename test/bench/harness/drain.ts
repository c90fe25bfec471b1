import type { DrainReport, DrainRequest } from '../programs/drain.ts';
import { inScope } from '../../support/cleanup.ts';
import { startProcess } from '../../support/process.ts';
import type { Bench } from './bench.ts';
import type { BenchDatabase } from './postgres.ts';
import { AWS_ENVIRONMENT, LOCAL, type Distance } from './outside.ts';
import { spreadOf, type Spread } from './stats.ts';

/** A contender and how it is set. */
export interface Entrant {
  readonly contender: DrainRequest['contender'];
  readonly options?: Readonly<Record<string, unknown>>;
  readonly distance?: Distance;
  /** Events, where it is too slow for all of them. */
  readonly events?: number;
  /** Given up after this, and judged by what it did until then. */
  readonly capMs?: number;
  /** Of repetitions; as many as the others when absent. */
  readonly repetitions?: number;
  /** Added to Node's arguments, such as `--cpu-prof`. */
  readonly nodeArguments?: readonly string[];
}

/** One repetition. CPU in microseconds per event: of its own process, of PostgreSQL, of the emulator and the network. */
export interface DrainMeasure {
  readonly eventsPerSecond: number;
  readonly nodeMicros: number;
  readonly postgresMicros: number;
  readonly outsideMicros: number;
}

const DEFAULT_CAP_MS = 120_000;

const isReport = (message: unknown): message is DrainReport =>
  (message as Partial<DrainReport>).kind === 'drained';

/** Runs one repetition of a contender on a fresh database and a fresh queue. */
export async function drainOnce(
  bench: Bench,
  entrant: Entrant,
  events: number,
  warmUp: number,
): Promise<DrainMeasure> {
  const { databaseMs, commitMs, queueMs } = entrant.distance ?? LOCAL;
  const { postgres, outside } = bench;
  const database = await postgres.create();
  const queue = await outside.createQueue();
  if (commitMs > 0) {
    const name = new URL(database.url).pathname.slice(1);
    await database.sql(`ALTER DATABASE ${name} SET commit_delay = ${commitMs * 1000}`);
    await database.sql(`ALTER DATABASE ${name} SET commit_siblings = 0`);
  }
  const endpoint = await outside.endpoint(queueMs);
  const job = {
    databaseUrl: await outside.databaseUrl(database.url, databaseMs),
    nearDatabaseUrl: database.url,
    // The SDK goes to the host of the queue's URL, whatever its endpoint.
    queueUrl: new URL(new URL(queue.queueUrl).pathname, endpoint).href,
    options: entrant.options ?? {},
  };
  const capMs = entrant.capMs ?? DEFAULT_CAP_MS;
  const report = await inScope(async () => {
    const child = startProcess(new URL('../programs/drain.ts', import.meta.url), {
      env: {
        ...AWS_ENVIRONMENT,
        AWS_ENDPOINT_URL: endpoint,
        ...(entrant.nodeArguments && { NODE_OPTIONS: entrant.nodeArguments.join(' ') }),
      },
    });
    const request: DrainRequest = {
      contender: entrant.contender,
      job,
      events: entrant.events ?? events,
      warmUp,
      capMs,
    };
    child.send(request);
    await child.message((message) => (message as { kind?: string }).kind === 'ready', 120_000);
    const before = { postgres: postgres.cpuMs(), outside: outside.cpuMs() };
    child.send({ kind: 'go' });
    const drained = await child.message(isReport, capMs + 30_000);
    return {
      ...drained,
      postgresMs: postgres.cpuMs() - before.postgres,
      outsideMs: outside.cpuMs() - before.outside,
    };
  });
  await queue.remove();
  await dropWithSlots(database);
  const micros = (ms: number) => (ms * 1000) / report.events;
  return {
    eventsPerSecond: (report.events / report.milliseconds) * 1000,
    nodeMicros: micros(report.cpuMs),
    postgresMicros: micros(report.postgresMs),
    outsideMicros: micros(report.outsideMs),
  };
}

async function dropWithSlots(database: BenchDatabase): Promise<void> {
  const { sql } = database;
  const slots = `FROM pg_replication_slots WHERE database = current_database()`;
  for (let tries = 0; tries < 50 && (await sql(`SELECT 1 ${slots} AND active`)).length > 0; tries += 1) {
    await sql(`SELECT pg_terminate_backend(active_pid) ${slots} AND active`);
  }
  await sql(`SELECT pg_drop_replication_slot(slot_name) ${slots}`);
  await database.drop();
}

/** The spreads of repeated measurements. */
export const spreads = (measures: readonly DrainMeasure[]): Record<keyof DrainMeasure, Spread> => {
  const of = (key: keyof DrainMeasure) => spreadOf(measures.map((measure) => measure[key]));
  return {
    eventsPerSecond: of('eventsPerSecond'),
    nodeMicros: of('nodeMicros'),
    postgresMicros: of('postgresMicros'),
    outsideMicros: of('outsideMicros'),
  };
};
