// Many histories, some side by side, and what they came to.

import { spareServer } from './disasters.ts';
import { runHistory, type History } from './history.ts';
import { startPool } from './sandbox.ts';
import { prepareGround, type Ground } from './world.ts';

export interface CampaignOptions {
  /** History n has the seed `seed + n`, so that each can be replayed alone. */
  readonly seed: number;
  /** At most so many histories. */
  readonly histories: number;
  /** None is begun after so long. */
  readonly milliseconds?: number;
  /** But so many are run in any case. */
  readonly atLeast?: number;
  /** Begins none after one has failed. */
  readonly failFast?: boolean;
  /** Histories at a time. Most of a history is waiting for leases and visibility timeouts to run out. */
  readonly sideBySide?: number;
  /** Hears of each history when it is judged. */
  readonly onHistory?: (history: History, soFar: Summary) => void;
}

/** What a campaign came to. */
export interface Summary {
  histories: number;
  failed: History[];
  violations: number;
  milliseconds: number;
  /** Processes started, the warm ones and the replacements. */
  processes: number;
  counts: Record<string, number>;
  strikes: Record<string, number>;
}

/** Runs a campaign on a server of its own or a test's. */
export async function runCampaign(server: Ground['server'], options: CampaignOptions): Promise<Summary> {
  const { seed, histories, milliseconds = Infinity, atLeast = 0, failFast = false } = options;
  const sideBySide = Math.min(options.sideBySide ?? 3, histories);
  await prepareGround(server);
  // Two or three relays and four consumers for each.
  const pool = await startPool(sideBySide * 7, 2);
  const spare = spareServer();
  const began = performance.now();
  const summary = emptySummary();
  let next = 0;
  const mayBegin = () =>
    next < histories &&
    (next < atLeast || performance.now() - began < milliseconds) &&
    !(failFast && summary.failed.length > 0);
  const lane = async () => {
    while (mayBegin()) {
      const history = await runHistory({ server, pool }, spare, seed + next++);
      add(summary, history);
      summary.milliseconds = Math.round(performance.now() - began);
      summary.processes = pool.started();
      options.onHistory?.(history, summary);
    }
  };
  try {
    await Promise.all(Array.from({ length: sideBySide }, lane));
    return summary;
  } finally {
    pool.stop();
    await spare.stop();
  }
}

const emptySummary = (): Summary => ({
  histories: 0,
  failed: [],
  violations: 0,
  milliseconds: 0,
  processes: 0,
  counts: {},
  strikes: {},
});

function add(summary: Summary, history: History): void {
  summary.histories += 1;
  summary.violations += history.violations.length;
  if (history.violations.length > 0) summary.failed.push(history);
  for (const part of ['counts', 'strikes'] as const)
    for (const [name, count] of Object.entries(history[part]))
      summary[part][name] = (summary[part][name] ?? 0) + count;
}

/** Not faults: what a person or the schedule did. */
const ERRANDS = new Set(['replays', 'redrives', 'prunes']);

/** How many faults struck. */
export const faultsOf = ({ strikes }: Pick<Summary, 'strikes'>): number =>
  Object.entries(strikes).reduce((sum, [kind, count]) => sum + (ERRANDS.has(kind) ? 0 : count), 0);
