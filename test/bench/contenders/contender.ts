import { randomUUID } from 'node:crypto';
import { writeEnvelope } from '../../../functions/outbox/envelope.ts';

/** What a contender is given. */
export interface Job {
  readonly databaseUrl: string;
  /** Where the database is without the slow network, to prepare events. */
  readonly nearDatabaseUrl: string;
  readonly queueUrl: string;
  readonly options: Readonly<Record<string, unknown>>;
}

/** What was drained, and how long that took. */
export interface Drained {
  readonly events: number;
  readonly milliseconds: number;
}

/** Something that drains events to a queue. */
export interface Contender {
  /** Makes so many events, not measured. */
  prepare(count: number): Promise<void>;
  /** Publishes and acknowledges them, or as many as it can in `capMs`. */
  drain(count: number, capMs: number): Promise<Drained>;
}

/** Puts a contender together in a process of its own. */
export type MakeContender = (job: Job) => Promise<Contender>;

const PAYLOAD_BYTES = 300;

/** The payload of the n-th event: JSON text of 300 bytes. */
export function payloadText(n: number): string {
  const start = `{"orderId":"ORDER-${n}","sku":"SKU-17","quantity":2,"note":"`;
  return `${start}${'x'.repeat(PAYLOAD_BYTES - start.length - 2)}"}`;
}

/** The message that everyone sends: our envelope around the payload. */
export const bodyOf = (payload: string, eventId: string = randomUUID()): string =>
  writeEnvelope({
    eventId,
    source: '/orders',
    type: 'order.placed',
    orderingKey: null,
    payload,
    recordedAt: '2026-11-30T12:00:00.000000Z',
  });

/** The same payload made in SQL from `n`. */
export const PAYLOAD_SQL = `(SELECT start || repeat('x', ${PAYLOAD_BYTES} - length(start) - 2) || '"}'
  FROM (SELECT '{"orderId":"ORDER-' || n || '","sku":"SKU-17","quantity":2,"note":"' AS start) AS s)`;

/** Makes pending outbox events numbered up to `$1`, due in this order. */
export const INSERT_OUTBOX = `
INSERT INTO outbox_event (event_id, destination, source, type, payload)
SELECT gen_random_uuid(), 'stock', '/orders', 'order.placed', ${PAYLOAD_SQL}::json FROM generate_series(1, $1::int) AS n`;

/** Counts what a worker has done, and says when it was enough. */
export class Counter {
  #count = 0;
  #first = 0;
  #wanted = Infinity;
  #enough = Promise.withResolvers<void>();

  /** A handler was called. */
  begin(): void {
    this.#first ||= performance.now();
  }
  /** Events are published. */
  add(events: number): void {
    this.#count += events;
    if (this.#count >= this.#wanted) this.#enough.resolve();
  }
  /** Runs a worker until so many are done or the time is over; the time counts from its first event. */
  async during(
    wanted: number,
    capMs: number,
    start: () => Promise<unknown>,
    stop: () => Promise<unknown>,
  ): Promise<Drained> {
    this.#count = 0;
    this.#first = 0;
    this.#wanted = wanted;
    this.#enough = Promise.withResolvers<void>();
    const timer = setTimeout(() => this.#enough.resolve(), capMs);
    await start();
    await this.#enough.promise;
    clearTimeout(timer);
    const drained = {
      events: this.#count,
      milliseconds: performance.now() - (this.#first || performance.now()),
    };
    await stop();
    return drained;
  }
}
