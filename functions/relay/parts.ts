import type { SQSClient } from '@aws-sdk/client-sqs';
import type { Report } from '../shared/report.ts';
import type { Store } from '../shared/store.ts';
import type { RelayConfig } from './config.ts';

/** Everything a tick needs, built once at the entry. */
export interface RelayParts {
  readonly store: Store;
  readonly sqs: SQSClient;
  readonly config: RelayConfig;
  readonly report: Report;
  /** Runs a call to a queue when fewer than `callsInFlight` are under way. */
  readonly calls: <T>(call: () => Promise<T>) => Promise<T>;
  /** A number in [0, 1). */
  readonly random: () => number;
  /** A fresh claim token (UUID). */
  readonly newToken: () => string;
}
