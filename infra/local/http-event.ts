// API Gateway's event of format 2.0 for a request to a route.

import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { ACCOUNT } from './template.ts';

/** A route of the API. */
export interface Route {
  /** `POST /orders` */
  key: string;
  pattern: URLPattern;
}

/** What JSON, text and forms are to API Gateway; anything else arrives in base64. */
const TEXT = /^(text\/|application\/(json|.*\+json|javascript|xml|.*\+xml|x-www-form-urlencoded))/;

/** API Gateway hands over paths and path parameters without their percent encoding. Undefined when it is broken. */
export function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/** The event that a route's function gets for a request; its path must not be broken. */
export function eventOf(
  route: Route,
  request: IncomingMessage,
  url: URL,
  body: Buffer,
): APIGatewayProxyEventV2 {
  const path = decoded(url.pathname) ?? '';
  const headers = Object.fromEntries(
    Object.entries(request.headers).map(([name, value]) => [name, [value ?? ''].flat().join(',')]),
  );
  const isText = TEXT.test(headers['content-type'] ?? 'text/plain');
  const pathParameters = parametersOf(route, url);
  return {
    version: '2.0',
    routeKey: route.key,
    rawPath: path,
    rawQueryString: url.search.slice(1),
    headers,
    ...(url.search && { queryStringParameters: queryOf(url.searchParams) }),
    ...(pathParameters && { pathParameters }),
    requestContext: contextOf(route, request, url, path),
    ...(body.length > 0 && { body: body.toString(isText ? 'utf8' : 'base64') }),
    isBase64Encoded: !isText,
  };
}

function contextOf(
  { key: routeKey }: Route,
  { method = 'GET', socket, headers }: IncomingMessage,
  url: URL,
  path: string,
): APIGatewayProxyEventV2['requestContext'] {
  const now = new Date();
  return {
    accountId: ACCOUNT,
    apiId: 'local',
    domainName: url.hostname,
    domainPrefix: 'local',
    http: {
      method,
      path,
      protocol: 'HTTP/1.1',
      sourceIp: socket.remoteAddress ?? '',
      userAgent: headers['user-agent'] ?? '',
    },
    requestId: randomUUID(),
    routeKey,
    stage: '$default',
    time: now.toISOString(),
    timeEpoch: now.getTime(),
  };
}

function parametersOf({ pattern }: Route, url: URL): Record<string, string> | undefined {
  const groups = Object.entries(pattern.exec({ pathname: url.pathname })?.pathname.groups ?? {});
  if (groups.length === 0) return undefined;
  return Object.fromEntries(groups.map(([name, value = '']) => [name, decodeURIComponent(value)]));
}

/** A name given twice has its values joined by a comma. */
function queryOf(query: URLSearchParams): Record<string, string> {
  return Object.fromEntries([...query.keys()].map((name) => [name, query.getAll(name).join(',')]));
}
