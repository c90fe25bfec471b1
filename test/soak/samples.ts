// What a soak measures over time, and what "flat" means.

import { readFileSync } from 'node:fs';
import { slotsOf, type World } from '../campaign/world.ts';

/** One look at everything that must not grow. */
export interface Sample {
  readonly seconds: number;
  /** Resident memory of the relay and of the consumers that nobody kills, in MB. */
  readonly relayMb: number;
  readonly consumersMb: number;
  /** Of relays, consumers and producers. */
  readonly connections: number;
  /** Due and not yet published. */
  readonly backlog: number;
  /** Of the outbox and of the ledger, with their indexes. */
  readonly outboxMb: number;
  readonly ledgerMb: number;
}

/** So much more than in the middle third is still flat: a share, and a little on top, for what comes and goes. */
const ALLOWED: Readonly<Record<Exclude<keyof Sample, 'seconds'>, { share: number; more: number }>> = {
  relayMb: { share: 0.1, more: 10 },
  consumersMb: { share: 0.1, more: 20 },
  connections: { share: 0.1, more: 4 },
  backlog: { share: 0.1, more: 200 },
  outboxMb: { share: 0.1, more: 1 },
  ledgerMb: { share: 0.1, more: 1 },
};

/**
 * Compares the median of the last third with that of the middle third; the first third is for warming up.
 * @returns one line for each measure that grows; none: all are flat
 */
export function growth(samples: readonly Sample[]): string[] {
  const third = Math.floor(samples.length / 3);
  if (third === 0) return [`${samples.length} samples are too few to tell`];
  const middle = samples.slice(third, samples.length - third);
  const last = samples.slice(samples.length - third);
  return Object.entries(ALLOWED).flatMap(([name, { share, more }]) => {
    const [before, after] = [middle, last].map((part) =>
      median(part.map((each) => each[name as keyof Sample])),
    );
    const most = (before ?? 0) * (1 + share) + more;
    return (after ?? 0) <= most
      ? []
      : [`${name} grows: from ${before} to ${after}, at most ${Math.round(most)} is flat`];
  });
}

function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0;
}

/** Looks at the processes named, and at the database. */
export async function takeSample(
  world: World,
  seconds: number,
  spared: ReadonlySet<string>,
): Promise<Sample> {
  const [row] = await world.sql<Omit<Sample, 'seconds' | 'relayMb' | 'consumersMb'>>(
    `SELECT (SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database()
               AND backend_type = 'client backend' AND application_name <> 'campaign') AS connections,
       (SELECT count(*)::int FROM outbox_event WHERE state = 'PENDING' AND due_at <= now()) AS backlog,
       pg_total_relation_size('outbox_event') / 1048576.0::float8 AS "outboxMb",
       pg_total_relation_size('applied_event') / 1048576.0::float8 AS "ledgerMb"`,
  );
  const memory = (isOne: (name: string) => boolean) =>
    slotsOf(world)
      .filter(({ name }) => spared.has(name) && isOne(name))
      .reduce((sum, { sandbox }) => sum + residentMb(sandbox?.pid), 0);
  return {
    seconds,
    relayMb: memory((name) => name.startsWith('relay')),
    consumersMb: memory((name) => !name.startsWith('relay')),
    connections: row?.connections ?? 0,
    backlog: row?.backlog ?? 0,
    outboxMb: row?.outboxMb ?? 0,
    ledgerMb: row?.ledgerMb ?? 0,
  };
}

function residentMb(pid: number | undefined): number {
  if (pid === undefined) return 0;
  try {
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1_024;
  } catch {
    return 0;
  }
}

export const HEADER = 'seconds   relay MB   consumers MB   connections   backlog   outbox MB   ledger MB';

/** A line of the table under HEADER. */
export const lineOf = ({
  seconds,
  relayMb,
  consumersMb,
  connections,
  backlog,
  outboxMb,
  ledgerMb,
}: Sample): string =>
  [
    String(Math.round(seconds)).padStart(7),
    relayMb.toFixed(0).padStart(11),
    consumersMb.toFixed(0).padStart(15),
    String(connections).padStart(14),
    String(backlog).padStart(10),
    outboxMb.toFixed(1).padStart(12),
    ledgerMb.toFixed(1).padStart(12),
  ].join('');
