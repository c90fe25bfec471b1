// npm run soak -- --minutes 10 [--rate 20] [--seed 1]: a steady load with faults on, a table over time, and an end with 1
// when memory, connections, backlog or tables grow, or an effect is missing or doubled.

import { parseArgs } from 'node:util';
import { startTestServer } from '../support/server.ts';
import { table } from '../campaign/report.ts';
import { HEADER, lineOf } from './samples.ts';
import { runSoak } from './soak.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    rate: { type: 'string', default: '20' },
    seed: { type: 'string', default: '1' },
  },
});

function positive(name: keyof typeof values): number {
  const number = Number(values[name]);
  if (!(number > 0)) throw new Error(`--${name}: expected a number above 0, got ${values[name]}`);
  return number;
}

// What relays and consumers say of the faults would bury what this has to say.
process.env['POWERTOOLS_LOG_LEVEL'] ??= 'SILENT';

// Leaving in order kills the sandboxes too.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

const { server, stop } = await startTestServer(undefined);
console.log(HEADER);
try {
  const { events, strikes, problems } = await runSoak(server, {
    minutes: positive('minutes'),
    rate: positive('rate'),
    seed: positive('seed'),
    onSample: (sample) => console.log(lineOf(sample)),
  });
  console.log(`\n${events} events recorded and applied once each, under:`);
  console.log(table(strikes).join('\n'));
  console.log(
    problems.length === 0 ? '\nAll of it is flat.' : `\n${problems.map((each) => `✗ ${each}`).join('\n')}`,
  );
  if (problems.length > 0) process.exitCode = 1;
} finally {
  await stop();
}
