import { startBenchPostgres, type BenchServer } from './postgres.ts';
import { startOutside, type Outside } from './outside.ts';
import type { Result } from './table.ts';

/** How much is measured: `tiny` shows that it runs, `quick` takes minutes, `full` as long as it takes. */
export type Size = 'tiny' | 'quick' | 'full';

/** What a benchmark runs in. */
export interface Bench {
  readonly size: Size;
  readonly postgres: BenchServer;
  readonly outside: Outside;
  /** By size. */
  pick<T>(tiny: T, quick: T, full: T): T;
  /** Tells whoever waits what is being done. */
  progress(text: string): void;
}

/** A benchmark. */
export type Benchmark = (bench: Bench) => Promise<Result>;

/** Runs work whose log lines are not wanted here; they are made all the same. */
export async function silently<T>(work: () => Promise<T>): Promise<T> {
  const write = process.stdout.write.bind(process.stdout);
  process.stdout.write = () => true;
  try {
    return await work();
  } finally {
    process.stdout.write = write;
  }
}

/** Starts what benchmarks need. */
export async function startBench(size: Size): Promise<Bench> {
  const [postgres, outside] = await Promise.all([startBenchPostgres(), startOutside()]);
  return {
    size,
    postgres,
    outside,
    pick: (tiny, quick, full) => ({ tiny, quick, full })[size],
    progress: (text) => void process.stderr.write(`${text}\n`),
  };
}

/**
 * Measures things side by side: one repetition of each, then again, so that what else the machine does meets all of
 * them alike.
 *
 * @returns for each its measurements, in order
 */
export async function sideBySide<Name, M>(
  names: readonly Name[],
  repetitions: number,
  measure: (name: Name, repetition: number) => Promise<M>,
): Promise<Map<Name, M[]>> {
  const all = new Map<Name, M[]>(names.map((name) => [name, []]));
  for (let repetition = 0; repetition < repetitions; repetition += 1) {
    // Every second round backwards: nobody always follows the same neighbour.
    for (const name of repetition % 2 === 0 ? names : names.toReversed()) {
      all.get(name)?.push(await measure(name, repetition));
    }
  }
  return all;
}
