// Named ways in which the scripted endpoint answers a call.

import { setTimeout as sleep } from 'node:timers/promises';
import type { BatchResult, WireInput } from './sqs-actions.ts';
import { SqsFault, type WireEntry } from './sqs-rules.ts';

/** A call as the endpoint has recorded it. Times are milliseconds since the epoch. */
export interface Call {
  /** 1 for the first call of any kind. */
  number: number;
  /** Such as SendMessageBatch. */
  action: string;
  queue: string;
  /** Of a batch; SendMessage counts as a batch of one with the id '0'; none otherwise. */
  entries: WireEntry[];
  input: WireInput;
  at: number;
  endedAt?: number;
  /** Absent while it runs. `abandoned`: the caller went away first. */
  ended?: 'answered' | 'reset' | 'abandoned';
  /** HTTP status, once answered. */
  status?: number;
}

/** What an answer works with. */
export interface Exchange {
  call: Call;
  /** Carries the call out as SQS would. Throws SqsFault. */
  perform(): Promise<object>;
  /** Carries a batch call out for some of its entries, by id. Throws SqsFault. */
  performEntries(takes: (id: string) => boolean): BatchResult;
  respond(status: number, body: object | string): void;
  /** Drops the connection (ECONNRESET). */
  reset(): void;
  /** Aborted when the caller goes away or the endpoint stops. */
  gone: AbortSignal;
}

/** Decides over one call. A SqsFault it throws is answered as SQS answers it. */
export type Answer = (exchange: Exchange) => void | Promise<void>;

/** Fails an entry: nothing is stored, and it is listed in `Failed`. */
export interface EntryFault {
  code: string;
  /** False by default: SQS's own trouble, worth another try. */
  senderFault?: boolean;
  message?: string;
}

/**
 * What becomes of one entry. `omitted`: not stored, in neither list. `storedButOmitted`: stored, in neither list.
 * `wrongMd5`: stored, listed as successful with another checksum.
 */
export type EntryOutcome = EntryFault | 'omitted' | 'storedButOmitted' | 'wrongMd5';

/** As SQS would. */
export const ok = (): Answer => async (exchange) => exchange.respond(200, await exchange.perform());

/** A batch, entry by entry: keys are entry ids; entries that are not named go as SQS would have it. */
export const outcomes =
  (byId: Record<string, EntryOutcome>): Answer =>
  (exchange) => {
    const result = exchange.performEntries((id) => isStored(byId[id]));
    exchange.respond(200, {
      Successful: result.Successful.filter(({ Id }) => byId[Id] !== 'storedButOmitted').map((entry) =>
        byId[entry.Id] === 'wrongMd5' ? { ...entry, MD5OfMessageBody: '0'.repeat(32) } : entry,
      ),
      Failed: [...result.Failed, ...exchange.call.entries.flatMap(({ Id }) => failedEntry(Id, byId[Id]))],
    });
  };

/** These entries in `Failed`, by id: `fail({ 3: { code: 'InternalError' }, 9: { code, senderFault: true } })`. */
export const fail = (byId: Record<string, EntryFault>): Answer => outcomes(byId);

/** These entries in neither list, and not stored. */
export const omit = (...ids: string[]): Answer =>
  outcomes(Object.fromEntries(ids.map((id) => [id, 'omitted' as const])));

/** These entries stored, with a checksum that is not theirs, at which the SDK throws. */
export const wrongMd5 = (...ids: string[]): Answer =>
  outcomes(Object.fromEntries(ids.map((id) => [id, 'wrongMd5' as const])));

/** A status with any body, by default none, as from a load balancer. Nothing is stored. */
export const httpError =
  (status: number, body = ''): Answer =>
  (exchange) =>
    exchange.respond(status, body);

/** The call refused in SQS's own format. Nothing is stored. */
export const serviceError =
  (code: string, options: { status?: number; senderFault?: boolean; message?: string } = {}): Answer =>
  () => {
    throw new SqsFault(code, options.message ?? `${code} by script`, options);
  };

/** Too many requests; the SDK tries again by itself unless told not to. */
export const throttled = (): Answer => serviceError('RequestThrottled', { status: 403 });

/** The role may not send to the queue. */
export const accessDenied = (): Answer => serviceError('AccessDenied', { status: 403 });

/** The queue was deleted, or its URL is wrong. */
export const queueDoesNotExist = (): Answer => serviceError('QueueDoesNotExist');

/** SQS counts the call longer than the sender did. */
export const batchRequestTooLong = (): Answer => serviceError('BatchRequestTooLong');

/** Reads the request and stays silent: for ever, or for so long, after which it goes as SQS would. */
export const stall =
  (ms = Infinity): Answer =>
  async (exchange) => {
    if (await waited(ms, exchange.gone)) await ok()(exchange);
  };

/** Stores, and then stays silent: for ever, or for so long. */
export const storeThenStall =
  (ms = Infinity): Answer =>
  async (exchange) => {
    const body = await exchange.perform();
    if (await waited(ms, exchange.gone)) exchange.respond(200, body);
  };

/** Drops the connection; nothing is stored. */
export const reset = (): Answer => (exchange) => exchange.reset();

/** Stores, and then drops the connection: the sender cannot know. */
export const storeThenReset = (): Answer => async (exchange) => {
  await exchange.perform();
  exchange.reset();
};

/** Stores, and answers 200 with this body instead, such as `{}`: a response without the keys it should have. */
export const storeThenRespond =
  (body: object | string): Answer =>
  async (exchange) => {
    await exchange.perform();
    exchange.respond(200, body);
  };

const isStored = (outcome: EntryOutcome | undefined): boolean =>
  outcome === undefined || outcome === 'storedButOmitted' || outcome === 'wrongMd5';

function failedEntry(id: string, outcome: EntryOutcome | undefined): object[] {
  if (typeof outcome !== 'object') return [];
  const { code, senderFault = false, message = `${code} by script` } = outcome;
  return [{ Id: id, Code: code, SenderFault: senderFault, Message: message }];
}

/** False when the caller was gone first. */
async function waited(ms: number, gone: AbortSignal): Promise<boolean> {
  if (ms === Infinity) return false;
  await sleep(ms, undefined, { signal: gone }).catch(() => undefined);
  return !gone.aborted;
}
