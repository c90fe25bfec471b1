// A sandbox's first invocation: imports a handler, calls it once, and says what both took. argv: file, event as JSON.

import { performance } from 'node:perf_hooks';

const [file, event] = process.argv.slice(2);
const context = { awsRequestId: 'cold', functionName: 'cold', getRemainingTimeInMillis: () => 20_000 };
const began = performance.now();
const { handler } = await import(file);
const imported = performance.now();
await handler(JSON.parse(event), context);
const done = performance.now();
// On a line of its own: the function has said something before.
process.stdout.write(
  `\n${JSON.stringify({ importMs: imported - began, invocationMs: done - imported, sinceStartMs: done })}\n`,
);
process.exit();
