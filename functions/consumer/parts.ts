import type { SQSClient } from '@aws-sdk/client-sqs';
import type { EventTypes } from '../outbox/event.ts';
import type { Report } from '../shared/report.ts';
import type { RootClient } from '../shared/store.ts';
import type { Effect } from './apply.ts';
import type { ConsumerConfig } from './config.ts';

/** Everything a batch needs, built once at the entry. */
export interface ConsumerParts {
  readonly name: string;
  readonly types: EventTypes;
  readonly effects: Readonly<Record<string, Effect | undefined>>;
  readonly prisma: RootClient;
  readonly config: ConsumerConfig;
  readonly transactionPer: 'record' | 'batch';
  readonly sqs: SQSClient;
  readonly report: Report;
  /** A number in [0, 1). */
  readonly random: () => number;
}
