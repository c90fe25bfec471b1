// What happened in a history, for those who must understand a violation.

/** One thing that happened. */
export interface Entry {
  /** Milliseconds since the history began. */
  readonly ms: number;
  /** Such as `relay-1`, `producer`, `queue stock`. */
  readonly who: string;
  readonly what: string;
  /** Event ids it is about; none: it is about everybody. */
  readonly ids: readonly string[];
}

export interface Timeline {
  readonly add: (who: string, what: string, ids?: readonly string[]) => void;
  /** A fault that struck; counted by `kind`. */
  readonly strike: (kind: string, who: string, what: string) => void;
  readonly strikes: Readonly<Record<string, number>>;
  /** What concerns these events, and every fault, as text. */
  readonly about: (ids: ReadonlySet<string>) => string[];
}

export function startTimeline(): Timeline {
  const began = performance.now();
  const entries: Entry[] = [];
  const strikes: Record<string, number> = {};
  const add: Timeline['add'] = (who, what, ids = []) => {
    entries.push({ ms: Math.round(performance.now() - began), who, what, ids });
  };
  return {
    add,
    strike: (kind, who, what) => {
      strikes[kind] = (strikes[kind] ?? 0) + 1;
      add(who, `⚡ ${what}`);
    },
    strikes,
    about: (ids) =>
      entries
        .filter((entry) => entry.ids.length === 0 || entry.ids.some((id) => ids.has(id)))
        .map((entry) => {
          const named = entry.ids.filter((id) => ids.has(id)).map(shortId);
          return `${String(entry.ms).padStart(6)} ms  ${entry.who.padEnd(10)} ${entry.what} ${named.join(' ')}`;
        }),
  };
}

/** Enough of an event id to tell it from the others of a history. */
export const shortId = (id: string): string => id.slice(0, 8);
