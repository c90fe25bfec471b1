// What a project of your own imports from the library; `npm run library` builds it. The functions here import each
// other's files directly.

export { consumerConfig, type ConsumerConfig } from './consumer/config.ts';
export { consumer, type ConsumerOptions } from './consumer/consumer.ts';
export { gaugeConfig } from './gauge/config.ts';
export { gauge, type Measured } from './gauge/gauge.ts';
export { defineEvents, type EventInput, type EventTypes, type ReceivedEvent } from './outbox/event.ts';
export { nudger, type NudgerOptions } from './outbox/nudge.ts';
export { recordEvents, recorder, type RecorderOptions } from './outbox/record.ts';
export { pruneConfig, type PruneConfig } from './prune/config.ts';
export { prune } from './prune/prune.ts';
export { relayConfig, type RelayConfig } from './relay/config.ts';
export type { TickCounts } from './relay/counts.ts';
export { relay } from './relay/relay.ts';
export { databaseAdapter, type DatabaseConfig } from './shared/adapter.ts';
export { ConfigurationError, InvalidEventError, TerminalError } from './shared/errors.ts';
export type { TransactionClient } from './shared/store.ts';
