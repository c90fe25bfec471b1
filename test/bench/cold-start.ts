// What a cold start costs: a fresh process that loads a function's zip and serves one invocation, beside an empty handler.

import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { unzipSync } from 'fflate';
import { build } from '../../infra/build.ts';
import { writeEnvelope } from '../../functions/outbox/envelope.ts';
import { afterwards } from '../support/cleanup.ts';
import { sideBySide, type Bench, type Benchmark } from './harness/bench.ts';
import { AWS_ENVIRONMENT } from './harness/outside.ts';
import { figure, median, spreadOf, spreadText } from './harness/stats.ts';

const PROGRAM = fileURLToPath(new URL('./programs/cold-start.mjs', import.meta.url));
const EMPTY = 'an empty handler';

/** One cold start, in milliseconds. */
interface Start {
  importMs: number;
  invocationMs: number;
  /** From the start of the process to the answer. */
  sinceStartMs: number;
}

/** A handler's file, and what its invocation is given. */
interface Subject {
  file: string;
  environment: Readonly<Record<string, string>>;
  event: () => unknown;
}

/** `npm run bench -- cold-start` */
export const coldStart: Benchmark = async (bench) => {
  const subjects = await subjectsOf(bench);
  const names = [...subjects.keys()];
  const starts = await sideBySide(names, bench.pick(1, 15, 40), (name) => startCold(subjects.get(name)));
  const empty = median((starts.get(EMPTY) ?? []).map(({ sinceStartMs }) => sinceStartMs));
  const rows = names.map((name) => {
    const of = (key: keyof Start) => spreadOf((starts.get(name) ?? []).map((start) => start[key]));
    const ratio = figure(of('sinceStartMs').median / empty);
    return [name, spreadText(of('importMs')), spreadText(of('invocationMs')), ratio];
  });
  const columns = ['function', 'import, ms', 'first invocation, ms', 'whole process, of the empty one'];
  const note =
    'Fresh processes, interleaved; medians [min–max]. The zips that deploy, unpacked; real PostgreSQL and the SQS emulator. The relay finds nothing to do, stock applies one event.';
  return { tables: [{ title: 'Cold starts', columns, rows, note }], data: Object.fromEntries(starts) };
};

async function subjectsOf(bench: Bench): Promise<Map<string, Subject>> {
  const folder = await realpath(await mkdtemp(path.join(tmpdir(), 'outbox-cold-')));
  afterwards(() => rm(folder, { recursive: true }));
  const database = await bench.postgres.create();
  await database.sql("INSERT INTO stock_balance VALUES ('SKU-17', 1000000)");
  const endpoint = await bench.outside.endpoint(0);
  const { queueUrl } = await bench.outside.createQueue();
  const url = new URL(new URL(queueUrl).pathname, endpoint).href;
  const shared = { ...AWS_ENVIRONMENT, AWS_ENDPOINT_URL_SQS: endpoint, DATABASE_URL: database.url };
  const subject = async (name: string, event: () => unknown, own: Readonly<Record<string, string>> = {}) => {
    const file = path.join(await unzip(folder, name), 'functions', name, 'handler.mjs');
    return [name, { file, environment: { ...shared, ...own }, event }] as const;
  };
  await writeFile(path.join(folder, 'empty.mjs'), 'export const handler = async () => null;');
  await build(['relay', 'stock', 'gauge', 'prune']);
  const destinations = JSON.stringify({ stock: { kind: 'sqs', queueUrl: url } });
  return new Map<string, Subject>([
    [EMPTY, { file: path.join(folder, 'empty.mjs'), environment: {}, event: () => null }],
    await subject('relay', () => ({}), { OUTBOX_DESTINATIONS: destinations }),
    await subject('stock', oneOrder, { OUTBOX_QUEUE_URL: url }),
    await subject('gauge', () => ({})),
    await subject('prune', () => ({})),
  ]);
}

async function unzip(folder: string, name: string): Promise<string> {
  const target = path.join(folder, name);
  const zip = unzipSync(await readFile(new URL(`../../dist/${name}.zip`, import.meta.url)));
  for (const [file, content] of Object.entries(zip)) {
    await mkdir(path.join(target, path.dirname(file)), { recursive: true });
    await writeFile(path.join(target, file), content);
  }
  return target;
}

/** A batch of one order that nobody has applied yet. */
function oneOrder(): object {
  const order = { orderId: randomUUID(), sku: 'SKU-17', quantity: 1 };
  const body = writeEnvelope({
    eventId: randomUUID(),
    source: '/orders',
    type: 'order.placed',
    orderingKey: null,
    traceParent: null,
    payload: JSON.stringify(order),
    recordedAt: new Date().toISOString(),
  });
  return { Records: [{ messageId: randomUUID(), receiptHandle: 'none', body, attributes: {} }] };
}

async function startCold(subject: Subject | undefined): Promise<Start> {
  if (!subject) throw new Error('cold-start: nothing to start');
  const { file, environment, event } = subject;
  const args = [PROGRAM, pathToFileURL(file).href, JSON.stringify(event())];
  const { stdout } = await promisify(execFile)(process.execPath, args, {
    env: { ...environment },
    cwd: path.dirname(file),
  });
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as Start;
}
