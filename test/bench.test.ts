// Each benchmark runs in its smallest form, so that none of them rots. What they measure here says nothing.

import { beforeAll, describe, expect, it } from 'vitest';
import { inScope } from './support/cleanup.ts';
import { startBench, type Bench, type Benchmark } from './bench/harness/bench.ts';
import { consumerBench } from './bench/consumer.ts';
import { growth } from './bench/growth.ts';
import { idle } from './bench/idle.ts';
import { latency } from './bench/latency.ts';
import { model } from './bench/model/model.ts';
import { race } from './bench/race.ts';
import { record } from './bench/record.ts';
import { relay } from './bench/relay.ts';

const BENCHMARKS: Readonly<Record<string, Benchmark>> = {
  relay,
  consumer: consumerBench,
  race,
  record,
  growth,
  latency,
  idle,
};

describe('benchmarks, in their smallest form', () => {
  let bench: Bench;
  beforeAll(async () => {
    bench = await startBench('tiny');
  });

  it.each(Object.keys(BENCHMARKS))(
    '%s measures something in every row',
    async (name) => {
      const { tables } = await inScope(async () => BENCHMARKS[name]?.(bench) ?? { tables: [], data: {} });
      expect(tables.length).toBeGreaterThan(0);
      for (const { columns, rows } of tables) {
        expect(rows.length).toBeGreaterThan(0);
        for (const row of rows) expect(row).toHaveLength(columns.length);
        expect(rows.flat().join(' ')).not.toMatch(/NaN|Infinity|undefined/);
      }
    },
    120_000,
  );

  it('the model predicts what was measured within a third', () => {
    const { checks } = model().data as { checks: { measured: number; predicted: number }[] };
    expect(checks.length).toBeGreaterThan(5);
    for (const { measured, predicted } of checks) {
      expect(predicted / measured).toBeGreaterThan(2 / 3);
      expect(predicted / measured).toBeLessThan(3 / 2);
    }
  });
});
