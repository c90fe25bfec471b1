// What a relay's work costs, from drains of its parts alone.

import type { Bench } from '../harness/bench.ts';
import { drainOnce, type DrainMeasure, type Entrant } from '../harness/drain.ts';
import { figure, median } from '../harness/stats.ts';
import type { RelayModel } from './relay.ts';

/** What a relay's work costs in CPU milliseconds. */
export type Costs = Pick<
  RelayModel,
  'callMs' | 'callEventMs' | 'claimMs' | 'claimEventMs' | 'statementEventMs'
>;

/** What costs are measured from: calls of one and of ten, claims of 100 and of 500, with nothing else between. */
const PARTS = {
  call1: { contender: 'sdk', options: { entries: 1 } },
  call10: { contender: 'sdk', options: { entries: 10 } },
  claim100: {
    contender: 'store',
    options: { through: 'prisma', environment: { OUTBOX_CLAIM_LIMIT: '100' } },
  },
  claim500: {
    contender: 'store',
    options: { through: 'prisma', environment: { OUTBOX_CLAIM_LIMIT: '500' } },
  },
} satisfies Record<string, Entrant>;

/** Measures what goes into the model; `relayMicros` is PostgreSQL's CPU for claiming and acknowledging an event. */
export async function measureCosts(bench: Bench): Promise<Costs & { readonly relayMicros: number }> {
  const parts = new Map<keyof typeof PARTS, DrainMeasure>();
  for (const name of Object.keys(PARTS) as (keyof typeof PARTS)[]) {
    parts.set(name, await medianOf(bench, PARTS[name]));
    bench.progress(`${name}: ${figure(parts.get(name)?.nodeMicros ?? NaN)} µs of Node an event`);
  }
  const nodeMs = (name: keyof typeof PARTS) => (parts.get(name)?.nodeMicros ?? NaN) / 1000;
  const relayMicros = parts.get('claim100')?.postgresMicros ?? NaN;
  return {
    ...line('call', [1, nodeMs('call1')], [10, nodeMs('call10') * 10]),
    ...line('claim', [100, nodeMs('claim100') * 100], [500, nodeMs('claim500') * 500]),
    // Half for the claim, half for the acknowledge.
    statementEventMs: relayMicros / 2 / 1000,
    relayMicros,
  };
}

/** Medians of a few drains. */
export async function medianOf(bench: Bench, entrant: Entrant): Promise<DrainMeasure> {
  const all: DrainMeasure[] = [];
  for (let repetition = 0; repetition < bench.pick(1, 3, 3); repetition += 1) {
    all.push(await drainOnce(bench, entrant, bench.pick(200, 12_000, 50_000), bench.pick(0, 5_000, 10_000)));
  }
  const of = (key: keyof DrainMeasure) => median(all.map((measure) => measure[key]));
  return {
    eventsPerSecond: of('eventsPerSecond'),
    nodeMicros: of('nodeMicros'),
    postgresMicros: of('postgresMicros'),
    outsideMicros: of('outsideMicros'),
  };
}

/** The straight line through two points: what it costs whatever the number of events, and for each of them. */
function line<Name extends 'call' | 'claim'>(
  name: Name,
  [few, fewMs]: [number, number],
  [many, manyMs]: [number, number],
) {
  const each = Math.max(0, (manyMs - fewMs) / (many - few));
  return { [`${name}Ms`]: fewMs - few * each, [`${name}EventMs`]: each } as Record<
    `${Name}Ms` | `${Name}EventMs`,
    number
  >;
}
