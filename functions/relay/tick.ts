import { describeError } from '../shared/errors.ts';
import type { TimeLeft } from '../shared/deadline.ts';
import { claimDue, type Claim, type ClaimedEvent } from './claim.ts';
import { noCounts, type TickCounts } from './counts.ts';
import type { Outcome, Settlement } from './outcome.ts';
import { publish } from './publish.ts';
import type { RelayParts } from './parts.ts';
import { settle } from './settle.ts';

/** From this claim on, an event that never got an answer may be what kills its relay, and is sent alone. */
const SUSPECT_FROM_ATTEMPT = 3;
/** No claim is begun with less time than this. */
const SHORTEST_PASS_MS = 1_000;
/** Later claims start this much before the newest row seen, for rows that committed after younger ones. */
const DUE_OVERLAP_SECONDS = 2;

interface Run {
  readonly relay: RelayParts;
  readonly timeLeft: TimeLeft;
  readonly counts: TickCounts;
  /** Destinations through which nothing gets, and why. */
  readonly down: Map<string, string>;
  readonly errors: string[];
}

/**
 * Drains the outbox: claim → publish → settle, the next claim taken while the last is published, until a claim
 * comes back short, every destination is down, or the time is over.
 *
 * @param timeLeft of the run, with what settling needs already taken off
 * @throws the first claim's error: then nothing at all could be done. Later errors end the run and are reported.
 */
export async function tick(relay: RelayParts, timeLeft: TimeLeft): Promise<TickCounts> {
  const run: Run = { relay, timeLeft, counts: noCounts(), down: new Map(), errors: [] };
  const { claimLimit, claimsUnderway } = relay.config;
  const underway = new Set<Promise<void>>();
  let dueFrom: number | null = null;
  while (mayGoOn(run)) {
    const claim = await nextClaim(run, dueFrom);
    if (!claim) break;
    const work = finish(run, claim).finally(() => underway.delete(work));
    underway.add(work);
    const full = claim.events.length === claimLimit;
    // A short claim ends the run only if it looked from the oldest row on.
    if (!full && dueFrom === null) break;
    dueFrom = full ? Math.max(...claim.events.map(({ dueAt }) => dueAt)) - DUE_OVERLAP_SECONDS : null;
    if (underway.size >= claimsUnderway) await Promise.race(underway);
  }
  await Promise.all(underway);
  if (run.errors.length > 0) relay.report('relay.cut_short', { errors: run.errors });
  return run.counts;
}

const mayGoOn = ({ relay, timeLeft, down, errors }: Run) =>
  timeLeft() > SHORTEST_PASS_MS &&
  errors.length === 0 &&
  down.size < Object.keys(relay.config.destinations).length;

async function nextClaim(run: Run, dueFrom: number | null): Promise<Claim | undefined> {
  const { store, config, newToken } = run.relay;
  const { claimLimit: limit, leaseSeconds } = config;
  try {
    const claim = await claimDue(store, { token: newToken(), limit, leaseSeconds, dueFrom });
    run.counts.claimed += claim.events.length;
    return claim;
  } catch (error) {
    if (run.counts.claimed === 0) throw error;
    run.errors.push(describeError(error));
    return undefined;
  }
}

/** Publishes and settles one claim. An error here costs no event: what was not settled is due again after its lease. */
async function finish({ relay, timeLeft, counts, down, errors }: Run, claim: Claim): Promise<void> {
  try {
    const { aside, waves } = plan(claim.events, relay.config.maxAttempts);
    await settle(relay, claim, aside, counts);
    for (const wave of waves) {
      await settle(relay, claim, await publish(relay, claim, wave, down, timeLeft), counts);
    }
  } catch (error) {
    errors.push(describeError(error));
  }
}

/**
 * Says in which order a claim's events are sent, so that one that kills its relay takes few with it: first those
 * that are new or have had an answer, then those that once had none, at last one suspect, alone. The other suspects
 * go back untried, and what was claimed too often is set aside to be parked.
 */
export function plan(
  events: readonly ClaimedEvent[],
  maxAttempts: number,
): { aside: Settlement[]; waves: ClaimedEvent[][] } {
  const trust = Map.groupBy(events, ({ attempts, lastError }) => {
    if (attempts > maxAttempts) return 'exhausted';
    if (lastError !== null || attempts === 1) return 'trusted';
    return attempts < SUSPECT_FROM_ATTEMPT ? 'doubtful' : 'suspect';
  });
  const [suspect, ...otherSuspects] = trust.get('suspect') ?? [];
  const waves = [trust.get('trusted') ?? [], trust.get('doubtful') ?? [], suspect ? [suspect] : []];
  return {
    aside: [...as(trust.get('exhausted'), { kind: 'exhausted' }), ...as(otherSuspects, { kind: 'unsent' })],
    waves: waves.filter((wave) => wave.length > 0),
  };
}

const as = (group: readonly ClaimedEvent[] | undefined, outcome: Outcome): Settlement[] =>
  (group ?? []).map((event) => ({ event, outcome }));
