// Stands between a client and PostgreSQL, and lets the connection fail at a chosen statement.

import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { afterwards } from './cleanup.ts';
import { messageFramer, readyState, sqlOf } from './pg-protocol.ts';

/**
 * What happens at a matching statement.
 * - `hold`: the server does not get it before `release()`.
 * - `holdAnswer`: the server does it, the client hears nothing before `release()`.
 * - `cut`: the connection is reset, the server never gets it.
 * - `cutAnswer`: the server does it, then the connection is reset before the client hears of it.
 */
export type ProxyAction = 'hold' | 'holdAnswer' | 'cut' | 'cutAnswer';

/** A rule waiting for its statement. */
export interface Rule {
  /** The statement has come and the action is in force (`cutAnswer`: the reset has happened). */
  reached: Promise<void>;
  /** Ends a `hold` or `holdAnswer`. */
  release: () => void;
}

/** A running proxy. */
export interface TcpProxy {
  /** The database's URL, through the proxy. */
  url: string;
  /** Acts once, on the first statement (on any connection) that matches. */
  once(statement: RegExp | ((sql: string) => boolean), action: ProxyAction): Rule;
  /** Nothing passes any more, in either direction, on old and new connections. */
  stall(): void;
  /** Ends `stall`; what has waited passes. */
  resume(): void;
  /** Resets all connections. @returns how many. */
  cut(): number;
  /** Ends (FIN) the connections that are between transactions, as an idle timeout does. @returns how many. */
  closeIdle(): number;
  /** True: new connections are reset at once, as from a server that is down. */
  refuse(refusing: boolean): void;
  connections(): number;
  /** Done by itself when the test ends. */
  stop(): Promise<void>;
}

interface Gate {
  /** Who keeps it shut; open when nobody does. */
  shutBy: Set<object>;
  waiting: Buffer[];
  from: Socket;
  to: Socket;
}

interface Link {
  toServer: Gate;
  toClient: Gate;
  /** ReadyForQuery's state of the last answer; undefined while a statement runs. */
  ready: string | undefined;
  /** Set by `cutAnswer`: instead of the answer the client gets a reset. */
  cutAtAnswer: (() => void) | undefined;
}

interface PendingRule {
  matches: (sql: string) => boolean;
  action: ProxyAction;
  reached: () => void;
  released: boolean;
  release: (() => void) | undefined;
}

interface Proxy {
  links: Set<Link>;
  rules: PendingRule[];
  stalled: boolean;
  refusing: boolean;
}

/** The key under which `stall` shuts gates. */
const STALL = {};

/** Starts a proxy on a free port of 127.0.0.1 before the server of `databaseUrl`. Plain connections only, no TLS. */
export async function startTcpProxy(databaseUrl: string): Promise<TcpProxy> {
  const target = new URL(databaseUrl);
  const proxy: Proxy = { links: new Set(), rules: [], stalled: false, refusing: false };
  const server = createServer({ noDelay: true }, (client) => accept(proxy, client, target));
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const url = new URL(databaseUrl);
  url.hostname = '127.0.0.1';
  url.port = String((server.address() as AddressInfo).port);
  const running = describe(proxy, server, url.href);
  afterwards(() => running.stop());
  return running;
}

function describe(proxy: Proxy, server: Server, url: string): TcpProxy {
  const end = (links: Link[]): number => {
    for (const link of links) cutLink(proxy, link);
    return links.length;
  };
  let stopped: Promise<void> | undefined;
  return {
    url,
    once: (statement, action) => addRule(proxy, statement, action),
    stall: () => setStalled(proxy, true),
    resume: () => setStalled(proxy, false),
    cut: () => end([...proxy.links]),
    closeIdle: () => {
      const idle = [...proxy.links].filter((link) => link.ready === 'I');
      // The server's end; the other direction follows by itself. An idle timeout says goodbye, it does not reset.
      for (const link of idle) link.toServer.to.end();
      return idle.length;
    },
    refuse: (refusing) => void (proxy.refusing = refusing),
    connections: () => proxy.links.size,
    stop: () => {
      end([...proxy.links]);
      return (stopped ??= new Promise((resolve) => server.close(() => resolve())));
    },
  };
}

function addRule(proxy: Proxy, statement: RegExp | ((sql: string) => boolean), action: ProxyAction): Rule {
  const matches = typeof statement === 'function' ? statement : (sql: string) => statement.test(sql);
  const reached = Promise.withResolvers<void>();
  const rule: PendingRule = {
    matches,
    action,
    reached: reached.resolve,
    released: false,
    release: undefined,
  };
  proxy.rules.push(rule);
  const release = (): void => {
    rule.released = true;
    rule.release?.();
  };
  return { reached: reached.promise, release };
}

function setStalled(proxy: Proxy, stalled: boolean): void {
  proxy.stalled = stalled;
  for (const { toServer, toClient } of proxy.links)
    for (const gate of [toServer, toClient])
      if (stalled) shut(gate, STALL);
      else reopen(gate, STALL);
}

function accept(proxy: Proxy, client: Socket, target: URL): void {
  if (proxy.refusing) {
    client.resetAndDestroy();
    return;
  }
  const server = connect({ host: target.hostname, port: Number(target.port || 5432), noDelay: true });
  const link: Link = {
    toServer: openGate(client, server),
    toClient: openGate(server, client),
    ready: undefined,
    cutAtAnswer: undefined,
  };
  proxy.links.add(link);
  if (proxy.stalled) for (const each of [link.toServer, link.toClient]) shut(each, STALL);
  const frame = messageFramer();
  const state = readyState();
  client.on('data', (chunk) => frame(chunk).forEach((message) => fromClient(proxy, link, message)));
  server.on('data', (chunk) => fromServer(proxy, link, chunk, state(chunk)));
  for (const [socket, other] of [
    [client, server],
    [server, client],
  ] as const) {
    // Either side's end is the other's; errors are followed by 'close'.
    socket.on('error', () => undefined);
    socket.on('close', () => {
      other.destroySoon();
      proxy.links.delete(link);
    });
  }
}

function fromClient(proxy: Proxy, link: Link, message: Buffer): void {
  link.ready = undefined;
  const sql = sqlOf(message);
  const index = sql === undefined ? -1 : proxy.rules.findIndex((rule) => rule.matches(sql));
  const [rule] = index < 0 ? [] : proxy.rules.splice(index, 1);
  if (rule?.action === 'cut') {
    cutLink(proxy, link);
    rule.reached();
    return;
  }
  if (rule?.action === 'hold') holdBy(rule, link.toServer);
  if (rule?.action === 'holdAnswer') holdBy(rule, link.toClient);
  if (rule?.action === 'cutAnswer') link.cutAtAnswer = rule.reached;
  pass(link.toServer, message);
}

function fromServer(proxy: Proxy, link: Link, chunk: Buffer, ready: string | undefined): void {
  link.ready = ready;
  if (!link.cutAtAnswer) pass(link.toClient, chunk);
  else if (ready !== undefined) {
    cutLink(proxy, link);
    link.cutAtAnswer();
  }
}

function holdBy(rule: PendingRule, gate: Gate): void {
  if (!rule.released) {
    shut(gate, rule);
    rule.release = () => reopen(gate, rule);
  }
  rule.reached();
}

function cutLink(proxy: Proxy, link: Link): void {
  const client = link.toServer.from;
  // Node never closes the handle of a socket that is reset while its end is under way, and the process never ends.
  if (client.writableEnded) client.destroy();
  else client.resetAndDestroy();
  link.toServer.to.destroy();
  proxy.links.delete(link);
}

const openGate = (from: Socket, to: Socket): Gate => ({ shutBy: new Set(), waiting: [], from, to });

function pass(gate: Gate, bytes: Buffer): void {
  if (gate.shutBy.size > 0) {
    gate.waiting.push(bytes);
    gate.from.pause();
  } else if (!gate.to.write(bytes)) {
    gate.from.pause();
    gate.to.once('drain', () => {
      if (gate.shutBy.size === 0) gate.from.resume();
    });
  }
}

function shut(gate: Gate, by: object): void {
  gate.shutBy.add(by);
}

function reopen(gate: Gate, by: object): void {
  gate.shutBy.delete(by);
  if (gate.shutBy.size > 0) return;
  for (const bytes of gate.waiting.splice(0)) gate.to.write(bytes);
  gate.from.resume();
}
