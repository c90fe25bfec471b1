import type { Report } from '../shared/report.ts';
import type { Store } from '../shared/store.ts';
import type { RelayConfig } from './config.ts';
import type { Sender } from './sender.ts';

/** Everything a tick needs, built once at the entry. */
export interface RelayParts {
  readonly store: Store;
  /** By destination name. */
  readonly senders: ReadonlyMap<string, Sender>;
  readonly config: RelayConfig;
  readonly report: Report;
  /** Runs a call to a queue when fewer than `callsInFlight` are under way. */
  readonly calls: <T>(call: () => Promise<T>) => Promise<T>;
  /** For each destination the ordering key looked at last; kept from tick to tick, so that every key has its turn. */
  readonly keyCursors: Map<string, string>;
  /** A number in [0, 1). */
  readonly random: () => number;
  /** A fresh claim token (UUID). */
  readonly newToken: () => string;
}
