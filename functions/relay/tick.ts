import { describeError } from '../shared/errors.ts';
import type { TimeLeft } from '../shared/deadline.ts';
import type { Claim } from './claim.ts';
import { noCounts, type TickCounts } from './counts.ts';
import { dueLane, headLane, type Lane } from './lanes.ts';
import { tellIfLate } from './operations.ts';
import { isSuspect, plan } from './plan.ts';
import { publish } from './publish.ts';
import type { RelayParts } from './parts.ts';
import { settle } from './settle.ts';

/** No claim is begun with less time than this. */
const SHORTEST_PASS_MS = 1_000;

interface Run {
  readonly relay: RelayParts;
  readonly timeLeft: TimeLeft;
  readonly counts: TickCounts;
  /** Destinations through which nothing gets, and why. */
  readonly down: Map<string, string>;
  /** Destinations that left a suspect without an answer. */
  readonly silent: Set<string>;
  /** What ended the run early. */
  readonly errors: unknown[];
  /** When the oldest claimed event first fell due, epoch seconds on the database's clock. */
  oldestSince: number;
}

/**
 * Drains the outbox: claim → publish → settle, lane by lane, until there is nothing left to claim, every destination is
 * down, or the time is over.
 *
 * @param timeLeft of the run, with what settling needs already taken off
 * @throws when nothing at all could be done, the first error. Otherwise an error ends the run early and is reported.
 */
export async function tick(relay: RelayParts, timeLeft: TimeLeft): Promise<TickCounts> {
  const run: Run = {
    relay,
    timeLeft,
    counts: noCounts(),
    down: new Map(),
    silent: new Set(),
    errors: [],
    oldestSince: Infinity,
  };
  await Promise.all([drain(run, dueLane(relay)), drain(run, headLane(relay, run.down))]);
  await tellIfLate(relay, run.counts, run.oldestSince).catch((error: unknown) => run.errors.push(error));
  if (run.errors.length > 0) {
    if (run.counts.claimed === 0) throw run.errors[0];
    relay.report('relay.cut_short', { errors: run.errors.map((error) => describeError(error)) });
  }
  return run.counts;
}

/** Goes on claiming from a lane while what was claimed before is published, as many claims at once as it is wide. */
async function drain(run: Run, lane: Lane): Promise<void> {
  const underway = new Set<Promise<void>>();
  try {
    for (let more = true; more && mayGoOn(run);) {
      const next = await lane.next();
      more = next.more;
      if (next.claim.events.length === 0) continue;
      countClaim(run, next.claim);
      const work = finish(run, next.claim).finally(() => underway.delete(work));
      underway.add(work);
      // One suspect at a time, or two of them could not be told apart.
      if (next.claim.events.some(isSuspect)) await Promise.all(underway);
      else if (underway.size >= lane.width) await Promise.race(underway);
    }
  } catch (error) {
    run.errors.push(error);
  }
  await Promise.all(underway);
}

const mayGoOn = ({ relay, timeLeft, down, errors }: Run) =>
  timeLeft() > SHORTEST_PASS_MS && errors.length === 0 && down.size < relay.senders.size;

function countClaim(run: Run, { events }: Claim): void {
  run.counts.claimed += events.length;
  for (const { ageSeconds, waitingSince } of events) {
    run.counts.oldestSeconds = Math.max(run.counts.oldestSeconds, ageSeconds);
    run.oldestSince = Math.min(run.oldestSince, waitingSince);
  }
}

/** Publishes and settles one claim. An error here costs no event: what was not settled is due again after its lease. */
async function finish({ relay, timeLeft, counts, down, silent, errors }: Run, claim: Claim): Promise<void> {
  try {
    const { aside, waves } = plan(claim.events, relay.config.maxAttempts, silent);
    await settle(relay, claim, aside, counts);
    for (const wave of waves) {
      const settlements = await publish(relay, claim, wave, down, timeLeft);
      for (const { event, outcome } of settlements) {
        if (outcome.kind === 'unanswered' && isSuspect(event)) silent.add(event.destination);
      }
      await settle(relay, claim, settlements, counts);
    }
  } catch (error) {
    errors.push(error);
  }
}
