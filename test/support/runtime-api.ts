// Lambda's Runtime API for one sandbox, and AWS's own runtime client in it: what a function meets when it is deployed.

import { spawn, type ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { programOf } from '../../infra/runtime/places.ts';
import { afterwards } from './cleanup.ts';

/** An error as the runtime client posts it. */
export interface Fault {
  errorType: string;
  errorMessage: string;
  trace: string[];
}

/** A sandbox with AWS's runtime client. */
export interface RealSandbox {
  /** Resolves to what the function answered. Rejects with FunctionFailure. */
  invoke(event: unknown): Promise<unknown>;
  /** What was posted to `/init/error`: the module did not load. */
  initError: Promise<Fault>;
  /** Everything it wrote so far. */
  log: () => string;
  child: ChildProcess;
}

/** No answer: the function threw, or the sandbox ended, or was ended at the deadline. */
export class FunctionFailure extends Error {
  override readonly name = 'FunctionFailure';
  readonly fault: Fault | undefined;
  constructor(reason: string, fault?: Fault) {
    super(fault ? `${reason}: ${fault.errorType}: ${fault.errorMessage}` : reason);
    this.fault = fault;
  }
}

interface Invocation {
  id: string;
  event: unknown;
  answered: PromiseWithResolvers<unknown>;
  timer?: NodeJS.Timeout;
}

const ROUTE =
  /^\/2018-06-01\/runtime\/(?:invocation\/(?<next>next)|invocation\/(?<id>[^/]+)\/(?<kind>response|error)|(?<init>init)\/error)$/;

/**
 * Starts a sandbox for a function that lies unzipped in `folder`. It is killed at an invocation's deadline, as Lambda
 * does, and in any case when the test ends.
 *
 * @param handler as the template has it, such as `functions/relay/handler.handler`
 * @param timeoutMs the function's timeout
 */
export async function startRealSandbox({
  folder,
  handler,
  environment,
  timeoutMs = 25_000,
}: {
  folder: string;
  handler: string;
  environment: Record<string, string>;
  timeoutMs?: number;
}): Promise<RealSandbox> {
  const waiting: Invocation[] = [];
  const underway = new Map<string, Invocation>();
  const init = Promise.withResolvers<Fault>();
  init.promise.catch(() => undefined);
  let poll: ServerResponse | undefined;

  const give = () => {
    const invocation = poll && waiting.shift();
    if (!invocation || !poll) return;
    underway.set(invocation.id, invocation);
    invocation.timer = setTimeout(() => {
      invocation.answered.reject(new FunctionFailure(`timed out after ${timeoutMs} ms`));
      child.kill('SIGKILL');
    }, timeoutMs);
    poll.writeHead(200, {
      'content-type': 'application/json',
      'Lambda-Runtime-Aws-Request-Id': invocation.id,
      'Lambda-Runtime-Deadline-Ms': String(Date.now() + timeoutMs),
      'Lambda-Runtime-Invoked-Function-Arn': 'arn:aws:lambda:eu-central-1:000000000000:function:test',
    });
    poll.end(JSON.stringify(invocation.event));
    poll = undefined;
  };
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const { next, id = '', kind, init: isInit } = ROUTE.exec(request.url ?? '')?.groups ?? {};
    if (next) {
      poll = response;
      return give();
    }
    const body: unknown = JSON.parse((await text(request)) || 'null');
    response.writeHead(202, { 'content-type': 'application/json' }).end('{"status":"OK"}');
    if (isInit) return init.resolve(body as Fault);
    const invocation = underway.get(id);
    underway.delete(id);
    clearTimeout(invocation?.timer);
    if (kind === 'response') invocation?.answered.resolve(body);
    else invocation?.answered.reject(new FunctionFailure('threw', body as Fault));
  };

  const server = createServer((request, response) => void answer(request, response));
  const child = await startClient(server, folder, handler, environment);
  const lines: string[] = [];
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (part) => lines.push(String(part)));
  const log = () => lines.join('');
  child.on('exit', (code, signal) => {
    const ended = new FunctionFailure(`the sandbox ended (${code ?? signal}): ${log().slice(-2_000)}`);
    for (const { answered, timer } of [...waiting.splice(0), ...underway.values()]) {
      clearTimeout(timer);
      answered.reject(ended);
    }
    init.reject(ended);
  });
  return {
    child,
    log,
    initError: init.promise,
    invoke: (event) => {
      const answered = Promise.withResolvers<unknown>();
      waiting.push({ id: randomUUID(), event, answered });
      give();
      return answered.promise;
    },
  };
}

async function startClient(
  server: Server,
  folder: string,
  handler: string,
  environment: Record<string, string>,
): Promise<ChildProcess> {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const client = join(dirname(await programOf('runtime')), 'index.mjs');
  const child = spawn(process.execPath, [client, handler], {
    cwd: folder,
    env: {
      PATH: process.env['PATH'],
      TZ: ':UTC',
      AWS_LAMBDA_RUNTIME_API: `127.0.0.1:${(server.address() as AddressInfo).port}`,
      _HANDLER: handler,
      LAMBDA_TASK_ROOT: folder,
      AWS_REGION: 'eu-central-1',
      AWS_EXECUTION_ENV: 'AWS_Lambda_nodejs24.x',
      AWS_LAMBDA_FUNCTION_NAME: 'test',
      AWS_LAMBDA_FUNCTION_VERSION: '$LATEST',
      AWS_LAMBDA_FUNCTION_MEMORY_SIZE: '512',
      AWS_LAMBDA_LOG_GROUP_NAME: '/aws/lambda/test',
      AWS_LAMBDA_LOG_STREAM_NAME: 'test',
      ...environment,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  afterwards(async () => {
    const ended = child.exitCode === null && child.signalCode === null && once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
    server.closeAllConnections();
    server.close();
  });
  return child;
}
