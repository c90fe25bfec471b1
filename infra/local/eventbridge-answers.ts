// Named ways in which the local EventBridge answers a call.

import { BusFault, refused, type BusEntry, type EntryResult } from './eventbridge-bus.ts';

/** A call as it was recorded. */
export interface PutEventsCall {
  /** 1 for the first. */
  number: number;
  entries: BusEntry[];
  /** Absent while it runs. `abandoned`: the caller went away first. */
  ended?: 'answered' | 'reset' | 'abandoned';
}

/** What an answer works with. */
export interface Exchange {
  call: PutEventsCall;
  /** Takes what the rules allow, except entries that `fault` has a result for. Throws BusFault for the whole call. */
  perform: (fault?: (index: number) => EntryResult | undefined) => EntryResult[];
  respond: (status: number, body: object) => void;
  /** Drops the connection (ECONNRESET). */
  reset: () => void;
}

/** Decides over one call. A BusFault it throws is answered as EventBridge answers it. */
export type Answer = (exchange: Exchange) => void;

/** Decides each call's answer; undefined: as EventBridge would. */
export type Script = (call: PutEventsCall) => Answer | undefined;

/** As EventBridge would, except for entries that `fault` has a result for. */
const answer = (exchange: Exchange, fault?: (index: number) => EntryResult | undefined, count = Infinity) => {
  const Entries = exchange.perform(fault).slice(0, count);
  const FailedEntryCount = Entries.filter((entry) => 'ErrorCode' in entry).length;
  exchange.respond(200, { FailedEntryCount, Entries });
};

/** As EventBridge would. */
export const ok = (): Answer => (exchange) => answer(exchange);

/** These entries, by position, are not taken and have this error code. */
export const fail =
  (codes: Record<number, string>): Answer =>
  (exchange) =>
    answer(exchange, (index) => {
      const code = codes[index];
      return code === undefined ? undefined : refused(code);
    });

/** Only the first `count` are taken and answered: the list is shorter than the call's. */
export const answerOnly =
  (count: number): Answer =>
  (exchange) =>
    answer(exchange, (index) => (index < count ? undefined : {}), count);

/** These entries are not taken, and their places in the answer say nothing. */
export const sayNothingOf =
  (...indexes: number[]): Answer =>
  (exchange) =>
    answer(exchange, (index) => (indexes.includes(index) ? {} : undefined));

/** The call refused as a whole; nothing is taken. */
export const serviceError =
  (code: string, { status = 400, message = `${code} by script` } = {}): Answer =>
  () => {
    throw new BusFault(code, message, status);
  };

/** Too many requests; the SDK tries again by itself unless told not to. */
export const throttled = (): Answer => serviceError('ThrottlingException', { message: 'Rate exceeded' });

/** The role may not put events on the bus. */
export const accessDenied = (): Answer => serviceError('AccessDeniedException');

/** A status without a code, as from a load balancer. Nothing is taken. */
export const httpError =
  (status: number): Answer =>
  (exchange) =>
    exchange.respond(status, {});

/** Reads the request and stays silent until the caller goes away or the endpoint stops. */
export const stall = (): Answer => () => undefined;

/** Drops the connection; nothing is taken. */
export const reset = (): Answer => (exchange) => exchange.reset();

/** Takes the events, and then drops the connection: the sender cannot know. */
export const storeThenReset = (): Answer => (exchange) => {
  exchange.perform();
  exchange.reset();
};
