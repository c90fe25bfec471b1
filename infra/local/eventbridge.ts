// EventBridge's PutEvents on a local port (AWS JSON 1.1), with the service's own rules, failing as a script tells it to.
// Rules, targets, archives and every other call do not exist here; `targetBody` is what a rule would hand to a queue.

import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { ok, type Answer, type Exchange, type PutEventsCall, type Script } from './eventbridge-answers.ts';
import {
  BusFault,
  MAXIMUM_CALL_BYTES,
  putEvents,
  type BusEntry,
  type BusEvent,
  type Buses,
} from './eventbridge-bus.ts';

export * from './eventbridge-answers.ts';
export { BusFault, entryBytes, targetBody, type BusEntry, type BusEvent } from './eventbridge-bus.ts';

/** A running endpoint. */
export interface EventBridge {
  /** `http://127.0.0.1:<port>`, for `AWS_ENDPOINT_URL_EVENTBRIDGE`. */
  url: string;
  /** Every event that a bus ever took, in order of arrival. */
  events: BusEvent[];
  /** Every call so far, in order of arrival. */
  calls: PutEventsCall[];
  /** From now on this decides; without an argument everything goes as EventBridge would. */
  on: (script?: Script) => void;
  /** The next calls are answered by these, one each, before `on` is asked. */
  next: (...answers: Answer[]) => void;
  /** Ends all connections; calling it again does nothing. */
  stop: () => Promise<void>;
}

interface Endpoint {
  buses: Buses;
  calls: PutEventsCall[];
  script: Script;
  upcoming: Answer[];
}

/**
 * Starts an endpoint on 127.0.0.1.
 *
 * @param port 0, the default, takes a free one
 * @param buses names of those that exist; events for others are accepted and dropped, as the service does
 * @param maxBytes of one call, by EventBridge's own size rule
 */
export async function startEventBridge({
  port = 0,
  buses: names = ['default'],
  maxBytes = MAXIMUM_CALL_BYTES,
}: { port?: number; buses?: readonly string[]; maxBytes?: number } = {}): Promise<EventBridge> {
  const endpoint: Endpoint = {
    buses: { names, maxBytes, events: [] },
    calls: [],
    script: () => undefined,
    upcoming: [],
  };
  const server = createServer((request, response) => {
    serve(endpoint, request, response).catch((error: Error) => response.destroy(error));
  });
  // Idle connections stay, so that a reset is always one that a script asked for.
  server.keepAliveTimeout = 0;
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', resolve);
  });
  const address = server.address();
  let stopped: Promise<void> | undefined;
  return {
    url: `http://127.0.0.1:${typeof address === 'object' && address ? address.port : port}`,
    events: endpoint.buses.events,
    calls: endpoint.calls,
    on: (script = () => undefined) => void (endpoint.script = script),
    next: (...answers) => void endpoint.upcoming.push(...answers),
    stop: () => (stopped ??= stop(server)),
  };
}

async function stop(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeAllConnections();
  await closed;
}

async function serve(endpoint: Endpoint, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = await text(request).catch(() => undefined);
  // The caller went away in the middle of it.
  if (body === undefined) return;
  if (request.headers['x-amz-target'] !== 'AWSEvents.PutEvents') {
    reply(response, 400, { __type: 'UnknownOperationException' });
    return;
  }
  const call = openCall(endpoint, response, JSON.parse(body) as { Entries?: BusEntry[] });
  try {
    const answer = endpoint.upcoming.shift() ?? endpoint.script(call) ?? ok();
    answer(exchangeOf(endpoint, call, response));
  } catch (error) {
    // Any error that is no BusFault is a fault of the script, and says so to the caller.
    const fault = error instanceof BusFault ? error : new BusFault('ScriptError', String(error));
    reply(response, fault.status, { __type: fault.code, message: fault.message });
  }
}

function openCall(
  { calls }: Endpoint,
  response: ServerResponse,
  { Entries = [] }: { Entries?: BusEntry[] },
): PutEventsCall {
  const call: PutEventsCall = { number: calls.length + 1, entries: Entries };
  calls.push(call);
  response.once('close', () => {
    call.ended ??= response.writableFinished ? 'answered' : 'abandoned';
  });
  return call;
}

const exchangeOf = ({ buses }: Endpoint, call: PutEventsCall, response: ServerResponse): Exchange => ({
  call,
  perform: (fault) => putEvents(buses, call.entries, fault),
  respond: (status, body) => reply(response, status, body),
  reset: () => {
    call.ended = 'reset';
    response.socket?.resetAndDestroy();
  },
});

function reply(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, {
    'content-type': 'application/x-amz-json-1.1',
    'x-amzn-requestid': randomUUID(),
  });
  response.end(JSON.stringify(body));
}
