// What runs in a sandbox: loads one handler and answers one invocation at a time, as Lambda's Node runtime does.
// Started by sandbox.ts in the unzipped function's folder, with Lambda's environment and nothing else of ours.

import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** To the sandbox. */
export interface Invocation {
  requestId: string;
  event: unknown;
  /** When the sandbox will be killed, in milliseconds since 1970. */
  deadlineMs: number;
  functionArn: string;
}

/** From the sandbox: once `ready` or `initFailed`, then one `returned` or `threw` for each invocation. */
export type Answer =
  | { kind: 'ready' }
  | { kind: 'initFailed'; error: FunctionFault }
  | { kind: 'returned'; requestId: string; value: unknown }
  | { kind: 'threw'; requestId: string; error: FunctionFault };

/** An error as Lambda reports it. */
export interface FunctionFault {
  errorType: string;
  errorMessage: string;
  trace: string[];
}

type Handler = (event: unknown, context: object) => unknown;

const environment = process.env;

function faultOf(error: unknown): FunctionFault {
  if (!(error instanceof Error)) return { errorType: typeof error, errorMessage: String(error), trace: [] };
  return { errorType: error.name, errorMessage: error.message, trace: error.stack?.split('\n') ?? [] };
}

async function loadHandler(): Promise<Handler> {
  const [, file = '', name = ''] = /^(.*)\.([^.]+)$/.exec(environment['_HANDLER'] ?? '') ?? [];
  const path = join(environment['LAMBDA_TASK_ROOT'] ?? '', `${file}.mjs`);
  const module = (await import(pathToFileURL(path).href)) as Record<string, unknown>;
  const handler = module[name];
  if (typeof handler !== 'function') throw new Error(`${environment['_HANDLER']} is not a function`);
  // nodejs24.x refuses handlers that want a callback.
  if (handler.length > 2) throw new Error(`${environment['_HANDLER']} declares a callback parameter`);
  return handler as Handler;
}

function contextOf({ requestId, deadlineMs, functionArn }: Invocation): object {
  return {
    awsRequestId: requestId,
    functionName: environment['AWS_LAMBDA_FUNCTION_NAME'],
    functionVersion: environment['AWS_LAMBDA_FUNCTION_VERSION'],
    invokedFunctionArn: functionArn,
    memoryLimitInMB: environment['AWS_LAMBDA_FUNCTION_MEMORY_SIZE'],
    logGroupName: environment['AWS_LAMBDA_LOG_GROUP_NAME'],
    logStreamName: environment['AWS_LAMBDA_LOG_STREAM_NAME'],
    callbackWaitsForEmptyEventLoop: true,
    getRemainingTimeInMillis: () => Math.max(0, deadlineMs - Date.now()),
  };
}

const answer = (message: Answer) => process.send?.(message);

async function serve(handler: Handler, invocation: Invocation): Promise<void> {
  const { requestId } = invocation;
  try {
    answer({
      kind: 'returned',
      requestId,
      value: (await handler(invocation.event, contextOf(invocation))) ?? null,
    });
  } catch (error) {
    answer({ kind: 'threw', requestId, error: faultOf(error) });
  }
}

// Without its parent nobody would ever end it.
process.on('disconnect', () => process.exit());

try {
  const handler = await loadHandler();
  process.on('message', (invocation: Invocation) => void serve(handler, invocation));
  answer({ kind: 'ready' });
} catch (error) {
  answer({ kind: 'initFailed', error: faultOf(error) });
}
