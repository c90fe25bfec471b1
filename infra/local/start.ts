// `npm start`: the whole service stays up for development.

import { parseArgs } from 'node:util';
import { runCommand, wholeNumber } from './cli.ts';
import { serve, type ServeOptions } from './start/serve.ts';

const HELP = `Runs the service on this machine until Ctrl-C: database, queues, schedule, functions from their zips, HTTP API.
Shows every step of every event, and rebuilds a function when its source changes.

  npm start -- [options]

  --port P   port of the HTTP API (default 3000, or any free one when that is taken)
  --reset    begins with an empty database and empty queues
  --force    with DATABASE_URL: uses it although it has other tables (and, with --reset, deletes its rows)

Data is kept in .local/. With DATABASE_URL the database is that one: the service creates its tables there, and
--reset empties orders, order_history, stock_balance, outbox_event and applied_event.
`;

function readOptions(): ServeOptions | undefined {
  const flag = { type: 'boolean', default: false } as const;
  const { values } = parseArgs({
    options: { port: { type: 'string' }, reset: flag, force: flag, help: { ...flag, short: 'h' } },
  });
  if (values.help) return undefined;
  return {
    ...(values.port !== undefined && { port: wholeNumber('--port', values.port, 1, 65_535) }),
    reset: values.reset,
    force: values.force,
    databaseUrl: process.env['DATABASE_URL'],
  };
}

await runCommand(async (signal) => {
  const options = readOptions();
  if (options === undefined) process.stdout.write(HELP);
  else await serve(options, signal);
  return 0;
});
