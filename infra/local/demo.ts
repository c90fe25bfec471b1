// `npm run demo`: the main job on real input, with faults, and an account of every event at the end.

import { parseArgs } from 'node:util';
import { DEFAULTS } from '../../test/data/generate.ts';
import { runCommand, wholeNumber } from './cli.ts';
import { demo, type DemoOptions } from './demo/run.ts';

const HELP = `Feeds orders, payments and shipments through the packaged functions into a fresh database, kills a relay and
sends messages twice while it runs, and accounts for every event. Exit code 0 only if everything reconciles.

  npm run demo -- [options]

  --orders N    so many different orders instead of test/data/orders.jsonl (10 to 100000)
  --seed S      made with another seed (default ${DEFAULTS.seed})
  --no-faults   kills nothing and sends nothing twice
  --no-nudge    leaves the relay to the ten-second schedule
  --json        the last line of standard output is one JSON object
  --force       with DATABASE_URL: uses it although it has other tables, or rows that will be deleted

Without DATABASE_URL the database is embedded and thrown away. With DATABASE_URL it is that one: the demo creates
its tables there, empties orders, order_history, stock_balance, outbox_event and applied_event first, and leaves the
rows behind.
`;

function readOptions(): DemoOptions | undefined {
  const flag = { type: 'boolean', default: false } as const;
  const { values } = parseArgs({
    options: {
      orders: { type: 'string' },
      seed: { type: 'string' },
      'no-faults': flag,
      'no-nudge': flag,
      json: flag,
      force: flag,
      help: { ...flag, short: 'h' },
    },
  });
  if (values.help) return undefined;
  return {
    ...(values.orders !== undefined && { orders: wholeNumber('--orders', values.orders, 10, 100_000) }),
    ...(values.seed !== undefined && { seed: wholeNumber('--seed', values.seed, 0, 2 ** 32 - 1) }),
    faults: !values['no-faults'],
    nudge: !values['no-nudge'],
    force: values.force,
    json: values.json,
    databaseUrl: process.env['DATABASE_URL'],
  };
}

await runCommand(async (signal) => {
  const options = readOptions();
  if (options === undefined) {
    process.stdout.write(HELP);
    return 0;
  }
  const result = await demo(options, signal);
  if (options.json) process.stdout.write(`${JSON.stringify(result)}\n`);
  return result.reconciled ? 0 : 1;
});
