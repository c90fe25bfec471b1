import { claimDue, type Claim } from './claim.ts';
import { claimHeads, keyedDestinations, type KeyRange } from './heads.ts';
import type { RelayParts } from './parts.ts';
import { isSuspect } from './plan.ts';

/** Where claims come from: events without an ordering key, or the heads of keys. */
export interface Lane {
  /** Claims held at once. */
  readonly width: number;
  /** The next claim, and whether the lane may have more after it. */
  next(): Promise<{ claim: Claim; more: boolean }>;
}

/** What a lane without any keys claims. */
const NO_CLAIM: Claim = { token: '', events: [], leaseLeft: () => 0 };
/** Later claims start this much before the newest row seen, for rows that committed after younger ones. */
const DUE_OVERLAP_SECONDS = 2;

const freshLease = ({ config, newToken }: RelayParts) => ({
  token: newToken(),
  leaseSeconds: config.leaseSeconds,
});

/**
 * Events without an ordering key, oldest first. After a full claim the next one starts where it ended, so that a
 * snapshot pinned by somebody's forgotten transaction does not make each claim wade through what is done.
 */
export function dueLane(relay: RelayParts): Lane {
  const { claimLimit: limit, claimBytes: bytes, claimsUnderway: width } = relay.config;
  let dueFrom: number | null = null;
  return {
    width,
    async next() {
      const { full, ...claim } = await claimDue(relay.store, freshLease(relay), { limit, bytes, dueFrom });
      // All suspects but one go back untried, and are claimed next.
      const suspects = claim.events.filter(isSuspect).length > 1;
      // A short claim is the last only if it looked from the oldest row on.
      const more = full || suspects || dueFrom !== null;
      dueFrom =
        full && !suspects ? Math.max(...claim.events.map(({ dueAt }) => dueAt)) - DUE_OVERLAP_SECONDS : null;
      return { claim, more };
    },
  };
}

/**
 * The heads of ordering keys, key after key and round again, each destination at its own pace, until a whole round of
 * all destinations that are not down found nothing to claim. One claim at a time: the next event of a key can only be
 * claimed once this one is settled. A later tick of the same sandbox goes on where this one stopped.
 */
export function headLane(relay: RelayParts, down: ReadonlyMap<string, string>): Lane {
  const { config, store, keyCursors } = relay;
  /** Known from the first claim on. */
  let names: string[] | undefined;
  /** Whether the present round of a destination, begun at its first key, has found nothing to claim so far. */
  const emptySoFar = new Map<string, boolean>();
  const done = new Set<string>();
  const isOpen = (name: string) => !done.has(name) && !down.has(name);
  return {
    width: 1,
    async next() {
      // Those that are not configured too: publishing them says so in `last_error`, where a person sees it.
      names ??= await keyedDestinations(store);
      const open = names.filter(isOpen);
      if (open.length === 0) return { claim: NO_CLAIM, more: false };
      const limit = Math.max(10, Math.ceil(config.claimLimit / open.length));
      const ranges = open.map((destination): KeyRange => {
        const hold = config.destinations[destination]?.parkedHead !== 'skip';
        return { destination, after: keyCursors.get(destination) ?? null, limit, hold };
      });
      for (const name of open) if (!emptySoFar.has(name)) emptySoFar.set(name, !keyCursors.has(name));
      const claim = await claimHeads(store, freshLease(relay), ranges, config.claimBytes);
      const waiting = [...claim.events.map(({ destination }) => destination), ...claim.leftOut];
      for (const destination of waiting) emptySoFar.set(destination, false);
      for (const [name, key] of claim.reached) {
        if (key !== null) {
          keyCursors.set(name, key);
          continue;
        }
        keyCursors.delete(name);
        if (emptySoFar.get(name)) done.add(name);
        emptySoFar.set(name, true);
      }
      return { claim, more: names.some(isOpen) };
    },
  };
}
