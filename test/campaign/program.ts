// One history, decided before it begins: who records what, which faults are laid where, how the queues answer.
// All of it follows from the seed. What the seed cannot decide is the timing of real processes: a trap that is laid
// at the fourth COMMIT of a consumer springs there, if the consumer comes to a fourth COMMIT.

/** The standard queue (with a dead-letter queue) and the FIFO queue, as destinations and consumers are called. */
export const STANDARD = 'stock';
export const FIFO = 'ledger';
/** The queue behind each destination. */
export const QUEUES = { [STANDARD]: 'stock', [FIFO]: 'ledger.fifo' } as const;
export const DEAD_LETTERS = 'dead';
export type DestinationName = keyof typeof QUEUES;

/**
 * What an effect makes of an event: `poison` is terminal until it is mended; `clumsy` swallows an error of its own
 * every other time, at which PostgreSQL would turn COMMIT into ROLLBACK.
 */
export type Trait = 'plain' | 'poison' | 'clumsy';

export interface PlannedEvent {
  readonly id: string;
  readonly orderingKey: string | null;
  readonly destinations: readonly DestinationName[];
  readonly delaySeconds: number;
  readonly trait: Trait;
}

export interface PlannedTransaction {
  readonly number: number;
  readonly pauseMs: number;
  /** How long it stays open after recording. */
  readonly openMs: number;
  readonly rollsBack: boolean;
  readonly events: readonly PlannedEvent[];
}

/** Statements at which a trap may be laid. */
export const STATEMENTS = {
  claim: /^\s*WITH due AS/,
  claimHeads: /^\s*WITH asked AS/,
  acknowledge: /SET state = 'PUBLISHED'|^\s*DELETE FROM outbox_event/,
  release: /SET claim_token = NULL/,
  park: /SET state = 'PARKED'/,
  begin: /^BEGIN/,
  ledger: /INSERT INTO applied_event/,
  effect: /INSERT INTO effect/,
  prove: /pg_current_xact_id/,
  commit: /^COMMIT/,
  record: /INSERT INTO outbox_event/,
} as const;
export type Statement = keyof typeof STATEMENTS;

/**
 * What a trap does: to the process (`kill`, `freeze` past the lease), to its connection (`cut`, or `terminate` by the
 * server), to the whole database (`outage`: all sessions end and nobody gets in for a while), or only `slow`.
 */
export type Strike = 'kill' | 'freeze' | 'cut' | 'terminate' | 'outage' | 'slow';

/** Springs at the nth such statement of `actor`, before the server gets it or before its answer comes back. */
export interface Trap {
  readonly actor: string;
  readonly statement: Statement;
  readonly nth: number;
  readonly side: 'before' | 'after';
  readonly strike: Strike;
}

/** Strikes at a moment instead of at a statement, wherever the process is then. */
export interface Blow {
  readonly afterMs: number;
  readonly actor: string;
  readonly strike: 'kill' | 'freeze' | 'cut';
}

/**
 * Befalls the whole server, so such a history has one of its own: it is shut down (`restart`) or crashes (`crash`) and
 * starts again, or strangers take every connection that it has (`crowd`).
 */
export interface Disaster {
  readonly afterMs: number;
  readonly what: 'restart' | 'crash' | 'crowd';
}

/** How the queue answers one call that sends. */
export interface PlannedAnswer {
  readonly kind:
    | 'ok'
    | 'entries'
    | 'emptyAnswer'
    | 'error503'
    | 'throttled'
    | 'stall'
    | 'storeThenStall'
    | 'reset'
    | 'storeThenReset'
    | 'killBefore'
    | 'killAfter'
    | 'freezeAfter';
  /** For `entries`, by position. */
  readonly entries: readonly EntryAnswer[];
}
export type EntryAnswer = 'ok' | 'failed' | 'refused' | 'omitted' | 'storedButOmitted' | 'wrongMd5';

/** What the queue does with one batch that it hands out. */
export type Delivery = 'once' | 'again' | 'undeleted' | 'doubled';

/** What a person, or the schedule, does meanwhile. */
export interface Errand {
  readonly afterMs: number;
  readonly what: 'replay' | 'redrive' | 'prune';
}

export interface Settings {
  readonly relays: number;
  /** Of each queue. */
  readonly consumers: number;
  readonly leaseSeconds: number;
  readonly callTimeoutSeconds: number;
  readonly claimLimit: number;
  readonly claimsUnderway: number;
  readonly maxAttempts: number;
  readonly keepPublished: boolean;
  readonly parkedHead: 'hold' | 'skip';
  readonly transactionPer: 'record' | 'batch';
  readonly tickPauseMs: number;
}

export interface Program {
  readonly seed: number;
  /** Without any fault: then nothing may be sent twice either. */
  readonly calm: boolean;
  readonly settings: Settings;
  /** One list of transactions for each producer. */
  readonly producers: readonly (readonly PlannedTransaction[])[];
  readonly traps: readonly Trap[];
  readonly blows: readonly Blow[];
  readonly disasters: readonly Disaster[];
  /** By relay, for its calls one after another; then all go well. */
  readonly answers: readonly (readonly PlannedAnswer[])[];
  /** By queue, for its batches one after another; then each comes once. */
  readonly deliveries: Readonly<Record<DestinationName, readonly Delivery[]>>;
  /** How the dead-letter queue answers consumers, one call after another. */
  readonly burials: readonly ('ok' | 'error503' | 'storeThenReset')[];
  readonly errands: readonly Errand[];
  /** Whether a person replays what is parked in the end. */
  readonly replaysInTheEnd: boolean;
}
