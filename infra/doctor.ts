// `npm run outbox -- doctor`: whether the numbers of a deployment agree with one another, before it ships.

import { readFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { consumerConfig } from '../functions/consumer/config.ts';
import { gaugeConfig } from '../functions/gauge/config.ts';
import { ordersConfig } from '../functions/orders/config.ts';
import { pruneConfig } from '../functions/prune/config.ts';
import { relayConfig } from '../functions/relay/config.ts';
import { connectionShape, readConfig, type Environment } from '../functions/shared/config.ts';
import { ConfigurationError } from '../functions/shared/errors.ts';
import { UsageError } from './local/errors.ts';
import { relationsOf, uncountedSandboxes } from './doctor-relations.ts';
import { expectTemplate, functionsOf, type DeployedFunction } from './doctor-template.ts';
import type { Template } from './template/document.ts';

type Configs = Readonly<Record<string, (environment: Environment) => unknown>>;

/** The very checks of each function's cold start; what has no settings of its own reads the database's. */
const SERVICE: Configs = {
  relay: relayConfig,
  prune: pruneConfig,
  orders: ordersConfig,
  gauge: gaugeConfig,
  migrate: (environment) => readConfig(connectionShape, environment),
};
/** The same in a project that has the library, whose other functions are its own, whatever they are called. */
const LIBRARY: Configs = { outboxRelay: relayConfig, outboxPrune: pruneConfig, outboxGauge: gaugeConfig };
const ALL: Configs = { ...SERVICE, ...LIBRARY };

const configsOf = (functions: readonly DeployedFunction[]): Configs =>
  functions.some(({ name }) => Object.hasOwn(LIBRARY, name)) ? LIBRARY : SERVICE;

/** What `serverless package` leaves. */
const PACKAGED = '.serverless/cloudformation-template-update-stack.json';

/**
 * What is wrong with the variables that a function would start with: every sentence of its own cold start, or none.
 * A function that has a queue's URL among its variables is a consumer, whatever its name; others are known by name.
 */
export function environmentProblems(
  name: string,
  environment: Environment,
  configs: Configs = ALL,
): string[] {
  const own = Object.hasOwn(configs, name) ? configs[name] : undefined;
  const check = environment['OUTBOX_QUEUE_URL'] === undefined ? own : consumerConfig;
  try {
    check?.(environment);
    return [];
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    return error.message
      .split('\n')
      .slice(1)
      .map((line) => `${name}: ${line.replace(/^ {2}- /, '')}`);
  }
}

/**
 * Every contradiction in a packaged template: what each function's cold start would say, and what no function can see
 * because the other number is a queue's, a mapping's or another function's.
 *
 * @param maxConnections the server's `max_connections`; without it connections are not added up
 */
export function templateProblems(template: Template, maxConnections?: number): string[] {
  const functions: DeployedFunction[] = functionsOf(template);
  const configs = configsOf(functions);
  return [
    ...functions.flatMap(({ name, environment }) => environmentProblems(name, environment, configs)),
    ...relationsOf(template, functions, maxConnections),
  ];
}

/**
 * What the doctor does not know of a packaged template: functions with settings of the outbox that it has no checks for,
 * and sandboxes that its sum leaves out. None of it is a fault.
 */
export function templateNotes(template: Template, maxConnections?: number): string[] {
  const functions = functionsOf(template);
  const configs = configsOf(functions);
  const unchecked = functions.filter(
    ({ name, environment }) =>
      environment['OUTBOX_QUEUE_URL'] === undefined &&
      !Object.hasOwn(configs, name) &&
      Object.keys(environment).some((key) => key.startsWith('OUTBOX_')),
  );
  return [
    ...unchecked.map(({ name }) => `${name}: not checked; no checks for a function of that name`),
    ...(maxConnections === undefined ? [] : uncountedSandboxes(template, functions)),
  ];
}

/** Reads a template as packaged, or the variables of a live function as `aws lambda get-function-configuration` prints them. */
export async function readJson<T>(file: string): Promise<T> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as T;
  } catch (cause) {
    const reason = cause instanceof SyntaxError ? 'is not JSON' : 'cannot be read';
    throw new UsageError(`${file} ${reason}; \`serverless package\` writes the template`, { cause });
  }
}

/** The variables in what `aws lambda get-function-configuration` prints, or in a plain object of them. */
export function variablesIn(json: unknown): Environment {
  const { Environment: environment } = json as { Environment?: { Variables?: Environment } };
  return environment?.Variables ?? (json as Environment);
}

const text = { type: 'string' } as const;

/** What the doctor found, and what it did not look at. */
export interface Findings {
  problems: string[];
  notes: string[];
}

/**
 * Runs the command and returns every problem found; none means that all agrees, as far as the notes do not except it.
 *
 * @param environment for `--env`: the variables of this process
 * @throws UsageError when an option is missing or a file cannot be read
 */
export async function doctor(args: readonly string[], environment: Environment): Promise<Findings> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      template: text,
      env: { type: 'boolean', default: false },
      function: text,
      variables: text,
      'max-connections': text,
    },
  });
  if (values.env || values.variables !== undefined) {
    if (values.function === undefined) {
      throw new UsageError(
        '--function: expected the name of the function that has these variables, such as relay',
      );
    }
    const given =
      values.variables === undefined ? environment : variablesIn(await readJson(values.variables));
    if (given['OUTBOX_QUEUE_URL'] === undefined && !Object.hasOwn(ALL, values.function)) {
      throw new UsageError(
        `--function: no checks for ${JSON.stringify(values.function)}; expected one of ${Object.keys(ALL).join(', ')}, or a consumer (with OUTBOX_QUEUE_URL)`,
      );
    }
    return { problems: environmentProblems(values.function, given), notes: [] };
  }
  return examined(values.template ?? PACKAGED, values['max-connections']);
}

async function examined(file: string, most: string | undefined): Promise<Findings> {
  if (most !== undefined && !/^[1-9]\d*$/.test(most)) {
    throw new UsageError(`--max-connections: expected a whole number above 0, got ${JSON.stringify(most)}`);
  }
  const template = expectTemplate(await readJson(file), file);
  const maxConnections = most === undefined ? undefined : Number(most);
  return {
    problems: templateProblems(template, maxConnections),
    notes: templateNotes(template, maxConnections),
  };
}
