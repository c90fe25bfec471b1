// The HTTP API of the template on a local port: requests become API Gateway events of format 2.0.
// Authorizers are not asked: on this machine the API is open.

import type { APIGatewayProxyStructuredResultV2 } from 'aws-lambda';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { UsageError } from './errors.ts';
import type { LocalFunction } from './function.ts';
import { decoded, eventOf, type Route } from './http-event.ts';
import { resolve, resourcesOf, type Attributes, type Template } from './template.ts';

/** A listening API. */
export interface HttpApi {
  /** `http://127.0.0.1:<port>` */
  url: string;
  stop: () => Promise<void>;
}

/** A request that has been answered. */
export interface ServedRequest {
  method: string;
  path: string;
  status: number;
}

interface ServedRoute extends Route {
  method: string;
  function: LocalFunction;
}

/** API Gateway's own limit. */
const MOST_BYTES = 10 * 1024 * 1024;

/** Listens on 127.0.0.1 and serves the template's routes; `functions` are found by their ARN. */
export async function startHttpApi(
  template: Template,
  known: Record<string, Attributes>,
  functions: Record<string, LocalFunction>,
  options: { port: number; onError: (error: unknown) => void; onRequest: (request: ServedRequest) => void },
): Promise<HttpApi> {
  const routes = routesOf(template, known, functions);
  const server = createServer((request, response) => {
    const { method = '', url: path = '' } = request;
    response.once('finish', () => options.onRequest({ method, path, status: response.statusCode }));
    serve(routes, request, response).catch((error: unknown) => {
      options.onError(error);
      // API Gateway tells the caller no more than this.
      reply(response, 500, { message: 'Internal Server Error' });
    });
  });
  server.listen(options.port, '127.0.0.1');
  await once(server, 'listening').catch((cause: unknown) => {
    throw new UsageError(`The API cannot listen on port ${options.port}: ${String(cause)}`, { cause });
  });
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : options.port;
  return {
    url: `http://127.0.0.1:${port}`,
    stop: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}

function routesOf(
  template: Template,
  known: Record<string, Attributes>,
  functions: Record<string, LocalFunction>,
): ServedRoute[] {
  return resourcesOf(template, 'AWS::ApiGatewayV2::Route').map(({ id, properties }) => {
    const [method = '', path = ''] = String(properties['RouteKey']).split(' ');
    const integration = /\S+$/.exec(String(resolve(properties['Target'], {})))?.[0] ?? '';
    const uri = template.resources[integration.replace(/^.*[/:]/, '')]?.Properties?.['IntegrationUri'];
    const called = functions[String(resolve(uri, known))];
    if (!called) throw new Error(`${id}: its integration is no function of the template.`);
    const pathname = path.replace(/\{(\w+)(\+?)\}/g, ':$1$2');
    return { key: `${method} ${path}`, method, pattern: new URLPattern({ pathname }), function: called };
  });
}

async function serve(
  routes: ServedRoute[],
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const url = new URL(request.url ?? '/', `http://${request.headers.host ?? '127.0.0.1'}`);
  const found = routes.find(
    ({ method, pattern }) =>
      (method === 'ANY' || method === request.method) && pattern.test({ pathname: url.pathname }),
  );
  if (!found) return reply(response, 404, { message: 'Not Found' });
  if (decoded(url.pathname) === undefined) return reply(response, 400, { message: 'Bad Request' });
  const body = await buffer(request);
  if (body.length > MOST_BYTES) return reply(response, 413, { message: 'Request Entity Too Large' });
  respond(response, await found.function.invoke(eventOf(found, request, url, body)));
}

/** A result with a statusCode is a response; anything else is the JSON body of a 200, as API Gateway infers it. */
function respond(response: ServerResponse, result: unknown): void {
  if (typeof result !== 'object' || result === null || !('statusCode' in result))
    return reply(response, 200, result);
  const {
    statusCode = 200,
    headers = {},
    body = '',
    isBase64Encoded = false,
    cookies = [],
  } = result as APIGatewayProxyStructuredResultV2;
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, String(value));
  if (cookies.length > 0) response.setHeader('set-cookie', cookies);
  response.writeHead(statusCode).end(isBase64Encoded ? Buffer.from(body, 'base64') : body);
}

function reply(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}
