// npm run campaign -- --histories 300 --seed 1 [--minutes 10] [--side-by-side 3] [--every 25] [--fail-fast]

import { parseArgs } from 'node:util';
import { startTestServer } from '../support/server.ts';
import { runCampaign, type Summary } from './campaign.ts';
import { failureText, progressText, summaryText } from './report.ts';

const { values } = parseArgs({
  options: {
    histories: { type: 'string' },
    seed: { type: 'string', default: '1' },
    minutes: { type: 'string' },
    'side-by-side': { type: 'string', default: '3' },
    every: { type: 'string', default: '25' },
    'fail-fast': { type: 'boolean', default: false },
  },
});

function whole(name: string, text: string): number {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 0)
    throw new Error(`--${name}: expected a whole number, got ${text}`);
  return number;
}

const minutes = values.minutes === undefined ? undefined : whole('minutes', values.minutes);
/** A seed alone is one history again; with minutes, as many as there is time for. */
const histories = values.histories ?? (minutes === undefined ? '1' : String(Number.MAX_SAFE_INTEGER));

// What relays and consumers say of the faults would bury what this has to say.
process.env['POWERTOOLS_LOG_LEVEL'] ??= 'SILENT';

// Leaving in order kills the sandboxes too, of which a frozen one would otherwise stay for ever.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

const { server, stop } = await startTestServer(process.env['DATABASE_URL']);
let summary: Summary | undefined;
try {
  summary = await runCampaign(server, {
    seed: whole('seed', values.seed),
    histories: whole('histories', histories),
    failFast: values['fail-fast'],
    sideBySide: whole('side-by-side', values['side-by-side']),
    ...(minutes !== undefined && { milliseconds: minutes * 60_000 }),
    onHistory: (history, soFar) => {
      if (history.violations.length > 0) console.log(failureText(history));
      if (soFar.histories % whole('every', values.every) === 0) console.log(progressText(soFar));
    },
  });
} finally {
  await stop();
}
console.log(summaryText(summary));
if (summary.violations > 0) process.exitCode = 1;
