import type { Bench } from './bench.ts';
import { figure, spreadOf, spreadText } from './stats.ts';

/** What some work in this process cost. */
export interface Metered {
  readonly units: number;
  readonly milliseconds: number;
  /** CPU milliseconds of this process, and of PostgreSQL. */
  readonly nodeMs: number;
  readonly postgresMs: number;
}

/** Runs work of so many units and says what it cost. */
export async function meter(bench: Bench, units: number, work: () => Promise<unknown>): Promise<Metered> {
  const postgres = bench.postgres.cpuMs();
  const cpu = process.cpuUsage();
  const began = performance.now();
  await work();
  const milliseconds = performance.now() - began;
  const { user, system } = process.cpuUsage(cpu);
  const nodeMs = (user + system) / 1000;
  return { units, milliseconds, nodeMs, postgresMs: bench.postgres.cpuMs() - postgres };
}

/** Figures of repeated work: units a second, and microseconds of CPU a unit. */
export const summaryOf = (all: readonly Metered[]) => ({
  perSecond: spreadOf(all.map(({ units, milliseconds }) => (units / milliseconds) * 1000)),
  milliseconds: spreadOf(all.map(({ units, milliseconds }) => milliseconds / units)),
  nodeMicros: spreadOf(all.map(({ units, nodeMs }) => (nodeMs / units) * 1000)),
  postgresMicros: spreadOf(all.map(({ units, postgresMs }) => (postgresMs / units) * 1000)),
});

/** Cells: units a second, then CPU of Node and of PostgreSQL. */
export const meterCells = (all: readonly Metered[]): string[] => {
  const { perSecond, nodeMicros, postgresMicros } = summaryOf(all);
  return [spreadText(perSecond), figure(nodeMicros.median), figure(postgresMicros.median)];
};
