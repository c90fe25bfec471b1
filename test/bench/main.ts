// npm run bench -- <name> [--quick | --full | --tiny]

import { parseArgs } from 'node:util';
import { inScope } from '../support/cleanup.ts';
import { startBench, type Benchmark, type Size } from './harness/bench.ts';
import { loadNow, machineOf, machineText } from './harness/machine.ts';
import { installPeers } from './harness/peers.ts';
import { keep, tableText, type Kept } from './harness/table.ts';

const BENCHMARKS: Readonly<Record<string, () => Promise<Benchmark>>> = {
  relay: async () => (await import('./relay.ts')).relay,
  consumer: async () => (await import('./consumer.ts')).consumerBench,
  record: async () => (await import('./record.ts')).record,
  race: async () => (await import('./race.ts')).race,
  growth: async () => (await import('./growth.ts')).growth,
  latency: async () => (await import('./latency.ts')).latency,
  idle: async () => (await import('./idle.ts')).idle,
  model: async () => (await import('./model/model.ts')).model,
  'cold-start': async () => (await import('./cold-start.ts')).coldStart,
};
/** Those that compare with other libraries. */
const WITH_PEERS = new Set(['relay', 'latency']);

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    tiny: { type: 'boolean', default: false },
    quick: { type: 'boolean', default: false },
    full: { type: 'boolean', default: false },
  },
});
const [name = ''] = positionals;
const size: Size = values.tiny ? 'tiny' : values.full ? 'full' : 'quick';
const load = BENCHMARKS[name];
if (name === 'plots') {
  const { plots } = await import('./plots.ts');
  process.stdout.write(`${(await plots()).join('\n')}\n`);
  process.exit();
}
if (!load || positionals.length > 1) {
  const names = [...Object.keys(BENCHMARKS), 'plots'].join(' | ');
  process.stderr.write(`npm run bench -- ${names} [--full | --tiny]\n`);
  process.exit(2);
}

const kept = await inScope(async (): Promise<Kept> => {
  if (WITH_PEERS.has(name) && size !== 'tiny') await installPeers();
  const benchmark = await load();
  const bench = await startBench(size);
  const machine = machineOf(bench.postgres.version);
  const result = await benchmark(bench);
  const command = `npm run bench -- ${name}${size === 'quick' ? '' : ` --${size}`}`;
  return { name, command, machine: { ...machine, load: [...machine.load, loadNow()] }, ...result };
});
for (const table of kept.tables) process.stdout.write(`${tableText(table)}\n`);
process.stdout.write(`${machineText(kept.machine)}\n`);
if (size !== 'tiny') process.stdout.write(`${keep(kept)}\n`);
// Clients of the SDK keep their sockets for a while.
process.exit();
