// What a relay's work costs, from drains of its parts alone.

import type { Bench } from '../harness/bench.ts';
import { drainOnce, spreads, type DrainMeasure, type Entrant } from '../harness/drain.ts';
import { figure } from '../harness/stats.ts';
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
  const measure = async (name: keyof typeof PARTS) => {
    const { nodeMicros, postgresMicros } = await drainAgain(bench, PARTS[name]);
    bench.progress(`${name}: ${figure(nodeMicros.median)} µs of Node an event`);
    return { nodeMs: nodeMicros.median / 1000, postgresMicros: postgresMicros.median };
  };
  const [call1, call10] = [await measure('call1'), await measure('call10')];
  const [claim100, claim500] = [await measure('claim100'), await measure('claim500')];
  const relayMicros = claim100.postgresMicros;
  return {
    ...line('call', [1, call1.nodeMs], [10, call10.nodeMs * 10]),
    ...line('claim', [100, claim100.nodeMs * 100], [500, claim500.nodeMs * 500]),
    // Half for the claim, half for the acknowledge.
    statementEventMs: relayMicros / 2 / 1000,
    relayMicros,
  };
}

/** The spreads of a few drains. */
export async function drainAgain(bench: Bench, entrant: Entrant): Promise<ReturnType<typeof spreads>> {
  const all: DrainMeasure[] = [];
  for (let repetition = 0; repetition < bench.pick(1, 3, 3); repetition += 1) {
    all.push(await drainOnce(bench, entrant, bench.pick(200, 12_000, 50_000), bench.pick(0, 5_000, 10_000)));
  }
  return spreads(all);
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
