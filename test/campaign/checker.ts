// Judges a history that has come to rest.

import { SOURCE, STEP } from './effects.ts';
import type { Applied, Arrival, Evidence } from './evidence.ts';
import { DEAD_LETTERS, FIFO, STANDARD, type DestinationName } from './program.ts';

/** A promise that was broken. */
export interface Violation {
  readonly promise: string;
  readonly what: string;
  /** The events that it is about. */
  readonly ids: readonly string[];
}

const DESTINATIONS = [STANDARD, FIFO] as const;
/** What a queue refused for good, or what was claimed too often; an outage is no reason. */
const REASON = /^(InvalidMessageContents: .|AttemptsExhausted: \d+; .)/;
const ALL_QUEUES = [...DESTINATIONS, DEAD_LETTERS] as const;

/** Every violation there is; none: the history kept all promises. */
export const check = (evidence: Evidence): Violation[] =>
  [
    nothingLost,
    nothingInvented,
    effectsOnce,
    orderKept,
    rowsSettled,
    queuesEmpty,
    nothingLeft,
    sentOnce,
  ].flatMap((promise) => promise(evidence));

const lost = (what: string, id: string) => ({ promise: 'nothing is lost', what, ids: [id] });

function nothingLost({ committed, rows, arrivals, hold }: Evidence): Violation[] {
  const parkedBefore = (at: number) =>
    rows
      .slice(0, at)
      .some(
        ({ state, key, destination }) =>
          hold && state === 'PARKED' && key === rows[at]?.key && destination === rows[at]?.destination,
      );
  return [...committed.values()].flatMap(({ id, destinations }) =>
    destinations.flatMap((destination) => {
      const at = rows.findIndex((row) => row.id === id && row.destination === destination);
      const row = rows[at];
      const arrived = arrivals[destination].filter((arrival) => arrival.id === id);
      if (row?.state === 'PARKED') return [];
      if (row?.state === 'PENDING' && row.key !== null && parkedBefore(at)) return [];
      if (row?.state === 'PENDING') return lost(`still pending for ${destination}`, id);
      if (arrived.length === 0) return lost(`${row?.state ?? 'no row'}, but not in ${destination}`, id);
      if (row && !arrived.some(({ messageId }) => messageId === row.messageId))
        return lost(`published to ${destination} under a message id that is none of its own`, id);
      return [];
    }),
  );
}

function nothingInvented({ committed, rows, arrivals, effects, ledger }: Evidence): Violation[] {
  const stranger = (what: string, id: string) =>
    committed.has(id) ? [] : [{ promise: 'nothing rolled back is sent or applied', what, ids: [id] }];
  const garbled = (arrival: Arrival, queue: DestinationName | typeof DEAD_LETTERS) => {
    const event = committed.get(arrival.id);
    const { source, type, data, partitionkey = null } = arrival.body;
    const same =
      event !== undefined &&
      (queue === DEAD_LETTERS || event.destinations.includes(queue)) &&
      JSON.stringify([SOURCE, STEP, event.step, event.orderingKey]) ===
        JSON.stringify([source, type, data, partitionkey]);
    const what = `${queue} has what was never recorded for it`;
    return same ? [] : [{ promise: 'the queue holds only what was recorded', what, ids: [arrival.id] }];
  };
  return [
    ...ALL_QUEUES.flatMap((queue) => arrivals[queue].flatMap(({ id }) => stranger(`in ${queue}`, id))),
    ...ALL_QUEUES.flatMap((queue) => arrivals[queue].flatMap((arrival) => garbled(arrival, queue))),
    ...rows.flatMap(({ id }) => stranger('in the outbox', id)),
    ...effects.flatMap(({ id, consumer }) => stranger(`applied by ${consumer}`, id)),
    ...ledger.flatMap(({ id, consumer }) => stranger(`in the ledger of ${consumer}`, id)),
  ];
}

const times = (list: readonly Applied[], consumer: string, id: string) =>
  list.filter((each) => each.consumer === consumer && each.id === id).length;

function effectsOnce({ arrivals, effects, ledger }: Evidence): Violation[] {
  return DESTINATIONS.flatMap((consumer) => {
    const arrived = new Set(arrivals[consumer].map(({ id }) => id));
    const named = [...effects, ...ledger].filter((each) => each.consumer === consumer);
    return [...new Set([...arrived, ...named.map(({ id }) => id)])].flatMap((id) => {
      const wanted = arrived.has(id) ? 1 : 0;
      const [applied, entered] = [times(effects, consumer, id), times(ledger, consumer, id)];
      if (applied === wanted && entered === wanted) return [];
      const what = `${consumer}: ${applied} effects and ${entered} ledger rows, expected ${wanted}`;
      return [{ promise: 'each effect exactly once', what, ids: [id] }];
    });
  });
}

function orderKept({ arrivals, effects, order, rows, hold }: Evidence): Violation[] {
  const firstArrivals = [...new Set(arrivals[FIFO].map(({ id }) => id))];
  const applied = effects.filter(({ consumer }) => consumer === FIFO).map(({ id }) => id);
  const parked = rows.filter(({ destination, state }) => destination === FIFO && state === 'PARKED');
  return [...order].flatMap(([key, ids]) => {
    const outOfOrder = (what: string, seen: readonly string[]) => {
      const places = seen.map((id) => ids.indexOf(id)).filter((place) => place >= 0);
      return places.every((place, n) => n === 0 || place > (places[n - 1] ?? -1))
        ? []
        : [{ promise: 'order per key', what: `${what} of ${key} in the order ${places.join(' ')}`, ids }];
    };
    const passed = ids.find(
      (id, place) =>
        hold &&
        parked.some((row) => row.id === id) &&
        !firstArrivals.includes(id) &&
        firstArrivals.some((other) => ids.indexOf(other) > place),
    );
    return [
      ...outOfOrder('arrivals', firstArrivals),
      ...outOfOrder('effects', applied),
      ...(passed
        ? [{ promise: 'order per key', what: `${key} went on past its parked event`, ids: [passed] }]
        : []),
    ];
  });
}

function rowsSettled({ rows, maxAttempts }: Evidence): Violation[] {
  return rows.flatMap(({ id, state, held, reason, attempts, destination }) => {
    const wrong = (promise: string, what: string) => ({
      promise,
      what: `${destination}: ${what}`,
      ids: [id],
    });
    return [
      ...(held ? [wrong('no lease is left behind', `${state} and still held`)] : []),
      ...(state === 'PARKED' && !REASON.test(reason ?? '')
        ? [wrong('parked for a reason that is one', `parked for: ${reason}`)]
        : []),
      ...(attempts > maxAttempts ? [wrong('attempts are limited', `${attempts} of ${maxAttempts}`)] : []),
      ...(state === 'PUBLISHED' && attempts < 1
        ? [wrong('attempts are counted', 'published with none')]
        : []),
    ];
  });
}

const queuesEmpty = ({ arrivals }: Evidence): Violation[] =>
  ALL_QUEUES.flatMap((queue) =>
    arrivals[queue]
      .filter(({ gone }) => !gone)
      .map(({ id }) => ({ promise: 'the queues run empty', what: `still in ${queue}`, ids: [id] })),
  );

function nothingLeft({ openTransactions, locks }: Evidence): Violation[] {
  if (openTransactions === 0 && locks === 0) return [];
  const what = `${openTransactions} transactions open, ${locks} advisory locks held`;
  return [{ promise: 'no transaction is left behind', what, ids: [] }];
}

/** Where no fault struck, at-least-once has no excuse. */
function sentOnce({ calm, arrivals }: Evidence): Violation[] {
  if (!calm) return [];
  return DESTINATIONS.flatMap((destination) => {
    const ids = arrivals[destination].filter(({ moved }) => !moved).map(({ id }) => id);
    return [...new Set(ids.filter((id, at) => ids.indexOf(id) !== at))].map((id) => ({
      promise: 'without a fault nothing is sent twice',
      what: `several times in ${destination}`,
      ids: [id],
    }));
  });
}
