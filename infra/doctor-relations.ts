// What must agree between a function and what is outside it: its timeout, its queue, its mapping, the other functions.

import { namesIn, type DeployedFunction } from './doctor-template.ts';
import { resourcesOf, type Template } from './template/document.ts';

const DAY_SECONDS = 86_400;
/** SQS's own default, as CloudFormation leaves it. */
const QUEUE_DEFAULTS = { visibility: 30, retention: 4 * DAY_SECONDS };
/** A mapping without a limit begins with five pollers. */
const LAMBDA_POLLS = 5;
/** Prune's own default. */
const DEFAULT_RETENTION_DAYS = 14;
/** What people and the server itself need beside the functions. */
const RESERVED_CONNECTIONS = 5;

interface Mapping {
  id: string;
  queueId: string;
  function: DeployedFunction;
  batchSize: number;
  windowSeconds: number;
  maximumConcurrency: number | undefined;
  partial: boolean;
}

/** Every relation of the template that does not hold, each a sentence with the two numbers and what to do. */
export function relationsOf(
  template: Template,
  functions: readonly DeployedFunction[],
  maxConnections: number | undefined,
): string[] {
  const mappings = mappingsOf(template, functions);
  return [
    ...functions.flatMap(timeoutProblems),
    ...mappings.flatMap((mapping) => queueProblems(template, mapping)),
    ...functions.flatMap((each) => retentionProblems(template, each)),
    ...(maxConnections === undefined ? [] : connectionProblems(functions, mappings, maxConnections)),
  ];
}

function mappingsOf(template: Template, functions: readonly DeployedFunction[]): Mapping[] {
  return resourcesOf(template, 'AWS::Lambda::EventSourceMapping').flatMap(({ id, properties }) => {
    const [queueId] = namesIn(properties['EventSourceArn']);
    const [functionId] = namesIn(properties['FunctionName']);
    const called = functions.find((each) => each.id === functionId);
    if (!called || queueId === undefined) return [];
    const scaling = (properties['ScalingConfig'] ?? {}) as { MaximumConcurrency?: number };
    return {
      id,
      queueId,
      function: called,
      batchSize: Number(properties['BatchSize'] ?? 10),
      windowSeconds: Number(properties['MaximumBatchingWindowInSeconds'] ?? 0),
      maximumConcurrency: scaling.MaximumConcurrency,
      partial: [properties['FunctionResponseTypes']].flat().includes('ReportBatchItemFailures'),
    };
  });
}

/** A function that is told another timeout than it has reckons with time it does not have. */
function timeoutProblems({ name, timeoutSeconds, environment }: DeployedFunction): string[] {
  const told = environment['OUTBOX_FUNCTION_TIMEOUT_SECONDS'];
  if (told === undefined || Number(told) === timeoutSeconds) return [];
  return [
    `${name}: OUTBOX_FUNCTION_TIMEOUT_SECONDS is ${told} and the function's timeout is ${timeoutSeconds}; give both the same value`,
  ];
}

function queueProblems(template: Template, mapping: Mapping): string[] {
  const queue = template.Resources[mapping.queueId]?.Properties ?? {};
  return [...visibilityProblems(queue, mapping), ...batchProblems(queue, mapping)];
}

function visibilityProblems(queue: Record<string, unknown>, mapping: Mapping): string[] {
  const { queueId, function: called, windowSeconds } = mapping;
  const visibility = Number(queue['VisibilityTimeout'] ?? QUEUE_DEFAULTS.visibility);
  const needed = 6 * called.timeoutSeconds + windowSeconds;
  const told = called.environment['OUTBOX_QUEUE_VISIBILITY_SECONDS'];
  const problems = [];
  if (visibility < needed) {
    problems.push(
      `${queueId}: VisibilityTimeout is ${visibility}, below ${needed} = six times the timeout of ${called.name} (${called.timeoutSeconds}) and its batching window (${windowSeconds}); raise the one or lower the other`,
    );
  }
  if (told !== undefined && Number(told) !== visibility) {
    problems.push(
      `${called.name}: OUTBOX_QUEUE_VISIBILITY_SECONDS is ${told} and VisibilityTimeout of ${queueId} is ${visibility}; give both the same value`,
    );
  }
  return problems;
}

function batchProblems(queue: Record<string, unknown>, mapping: Mapping): string[] {
  const { id, function: called, batchSize, windowSeconds } = mapping;
  const problems = [];
  if (called.environment['OUTBOX_QUEUE_URL'] !== undefined && !mapping.partial) {
    problems.push(
      `${id}: FunctionResponseTypes lacks ReportBatchItemFailures; the failed records of ${called.name} would be deleted as if applied`,
    );
  }
  if (batchSize > 10 && (queue['FifoQueue'] === true || windowSeconds < 1)) {
    problems.push(
      `${id}: BatchSize is ${batchSize} with a window of ${windowSeconds} s${queue['FifoQueue'] === true ? ' on a FIFO queue' : ''}; above 10 takes a standard queue and a window of at least 1`,
    );
  }
  if (mapping.maximumConcurrency === 1) {
    problems.push(`${id}: MaximumConcurrency is 1, below 2, the least that Lambda takes`);
  }
  return problems;
}

function retentionProblems(template: Template, deployed: DeployedFunction): string[] {
  return [...ledgerProblems(template, deployed), ...deadLetterProblems(template, deployed)];
}

/** What prune believes of the queues, against what they keep. Queues of less than a day carry no events. */
function ledgerProblems(template: Template, { name, environment }: DeployedFunction): string[] {
  if (environment['OUTBOX_LEDGER_RETENTION_DAYS'] === undefined) return [];
  return resourcesOf(template, 'AWS::SQS::Queue').flatMap(({ id, properties: queue }) => {
    const key = queue['RedrivePolicy'] ? 'OUTBOX_QUEUE_RETENTION_DAYS' : 'OUTBOX_DEAD_LETTER_RETENTION_DAYS';
    const days = retentionOf(queue) / DAY_SECONDS;
    const believed = Number(environment[key] ?? DEFAULT_RETENTION_DAYS);
    if (days < 1 || days <= believed) return [];
    return [
      `${name}: ${key} is ${believed} and ${id} keeps messages for ${days} days; raise it (and OUTBOX_LEDGER_RETENTION_DAYS with it), or a late delivery is applied twice`,
    ];
  });
}

function deadLetterProblems(template: Template, { refersTo }: DeployedFunction): string[] {
  const [dead = ''] = refersTo['OUTBOX_DEAD_LETTER_QUEUE_URL'] ?? [];
  const [source = ''] = refersTo['OUTBOX_QUEUE_URL'] ?? [];
  const deadQueue = template.Resources[dead]?.Properties;
  const queue = template.Resources[source]?.Properties;
  if (!deadQueue || !queue || retentionOf(deadQueue) >= retentionOf(queue)) return [];
  return [
    `${dead}: MessageRetentionPeriod is ${retentionOf(deadQueue)}, below the ${retentionOf(queue)} of ${source}; a message keeps its age when it is moved, and would be gone before a person looks`,
  ];
}

const retentionOf = (queue: Record<string, unknown>) =>
  Number(queue['MessageRetentionPeriod'] ?? QUEUE_DEFAULTS.retention);

function connectionProblems(
  functions: readonly DeployedFunction[],
  mappings: readonly Mapping[],
  maxConnections: number,
): string[] {
  const parts = functions.filter(asksDatabase).map(({ id, name, environment, reservedConcurrency }) => {
    const pool = Number(environment['OUTBOX_POOL_SIZE'] ?? 5);
    const mapping = mappings.find((each) => each.function.id === id);
    const started = mapping ? (mapping.maximumConcurrency ?? LAMBDA_POLLS) : (reservedConcurrency ?? 1);
    const sandboxes = Math.min(started, reservedConcurrency ?? Infinity);
    return { text: `${name} ${pool} × ${sandboxes}`, connections: pool * sandboxes };
  });
  const wanted = parts.reduce((sum, { connections }) => sum + connections, 0);
  if (wanted + RESERVED_CONNECTIONS <= maxConnections) return [];
  return [
    `max_connections is ${maxConnections}, below ${wanted + RESERVED_CONNECTIONS} = ${parts.map(({ text }) => text).join(' + ')} (OUTBOX_POOL_SIZE × MaximumConcurrency, or ReservedConcurrentExecutions) and ${RESERVED_CONNECTIONS} for people; lower those, or put a proxy between`,
  ];
}

/** Functions that callers start, as many at once as there are requests, and that the sum takes for one sandbox. */
export function uncountedSandboxes(template: Template, functions: readonly DeployedFunction[]): string[] {
  const called = new Set(
    resourcesOf(template, 'AWS::Lambda::Permission')
      .filter(({ properties: { Principal } }) => String(Principal).startsWith('apigateway.'))
      .flatMap(({ properties: { FunctionName } }) => [...namesIn(FunctionName)]),
  );
  return functions
    .filter(asksDatabase)
    .filter(({ id, reservedConcurrency }) => called.has(id) && reservedConcurrency === undefined)
    .map(
      ({ name }) =>
        `${name}: counted as one sandbox, though each request at once (HTTP) starts one; set its reservedConcurrency to have them counted`,
    );
}

const asksDatabase = ({ environment }: DeployedFunction): boolean =>
  Object.keys(environment).some((key) => key.startsWith('DATABASE_'));
