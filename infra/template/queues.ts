// What SQS and Lambda accept in silence and what then loses, repeats or buries messages (CASES E2, C5, C6).

import { isObject, referent, resourcesOf, type Template } from './document.ts';

interface Queue {
  VisibilityTimeout: number;
  MessageRetentionPeriod: number;
  FifoQueue: boolean;
  SqsManagedSseEnabled: boolean;
  RedrivePolicy: { deadLetterTargetArn: unknown; maxReceiveCount: number };
  RedriveAllowPolicy: { redrivePermission: string };
}
interface Mapping {
  EventSourceArn: unknown;
  FunctionName: unknown;
  MaximumBatchingWindowInSeconds: number;
  FunctionResponseTypes: string[];
  ScalingConfig: { MaximumConcurrency: number };
}
interface QueuePolicy {
  Queues: unknown[];
  PolicyDocument: unknown;
}

/** AWS's own rule: a message comes back only after every retry of the mapping itself. */
const TIMEOUTS_PER_VISIBILITY = 6;
/** Throttled deliveries count as receives too; fewer would bury healthy messages. */
const FEWEST_RECEIVES = 5;
/** A queue that forgets this soon holds ticks, which nobody misses; it needs no dead-letter queue. */
const SHORT_LIVED_SECONDS = 300;
const DEFAULT_VISIBILITY_SECONDS = 30;
const DEFAULT_RETENTION_SECONDS = 345_600;
const DEFAULT_TIMEOUT_SECONDS = 3;

/**
 * Queues and mappings that CloudFormation would accept and that lose, repeat or bury messages.
 *
 * @returns one line each, beginning with the logical id and the property; empty when nothing was found.
 */
export function queueErrors(template: Template): string[] {
  const queues = resourcesOf<Queue>(template, 'AWS::SQS::Queue');
  const mappings = resourcesOf<Mapping>(template, 'AWS::Lambda::EventSourceMapping');
  return [
    ...mappings.flatMap(({ id, properties }) => mappingErrors(template, id, properties)),
    ...queues.flatMap(({ id, properties }) => [
      ...(properties.SqsManagedSseEnabled ? [] : [`${id}.SqsManagedSseEnabled: messages lie unencrypted`]),
      ...(overTlsOnly(template, id)
        ? []
        : [`${id}: no queue policy denies it without TLS (aws:SecureTransport)`]),
      ...redriveErrors(template, id, properties),
    ]),
  ];
}

function mappingErrors(template: Template, id: string, mapping: Partial<Mapping>): string[] {
  const queueId = referent(mapping.EventSourceArn) ?? '';
  const queue = propertiesOf<Queue>(template, queueId);
  const lambda = propertiesOf<{ Timeout: number; ReservedConcurrentExecutions: number }>(
    template,
    referent(mapping.FunctionName) ?? '',
  );
  const errors: string[] = [];
  const most = mapping.ScalingConfig?.MaximumConcurrency;
  if (most === undefined)
    errors.push(`${id}.ScalingConfig.MaximumConcurrency: missing; throttled messages count as received`);
  const reserved = lambda.ReservedConcurrentExecutions;
  if (reserved !== undefined && reserved < (most ?? Infinity)) {
    errors.push(
      `${referent(mapping.FunctionName)}.ReservedConcurrentExecutions: ${reserved} is below what ${id} starts`,
    );
  }
  const window = mapping.MaximumBatchingWindowInSeconds ?? 0;
  const needed = TIMEOUTS_PER_VISIBILITY * (lambda.Timeout ?? DEFAULT_TIMEOUT_SECONDS) + window;
  const visibility = queue.VisibilityTimeout ?? DEFAULT_VISIBILITY_SECONDS;
  if (visibility < needed) {
    errors.push(
      `${queueId}.VisibilityTimeout: ${visibility} is below ${needed} = 6 × the function's timeout + the window`,
    );
  }
  if (isShortLived(queue)) return errors;
  if (!mapping.FunctionResponseTypes?.includes('ReportBatchItemFailures')) {
    errors.push(
      `${id}.FunctionResponseTypes: without ReportBatchItemFailures, one bad record repeats its whole batch`,
    );
  }
  if (!queue.RedrivePolicy)
    errors.push(`${queueId}.RedrivePolicy: missing; a bad message comes back until it expires`);
  return errors;
}

function redriveErrors(template: Template, id: string, queue: Partial<Queue>): string[] {
  if (!queue.RedrivePolicy) return [];
  const { deadLetterTargetArn, maxReceiveCount } = queue.RedrivePolicy;
  const deadLetterId = referent(deadLetterTargetArn) ?? '';
  const deadLetter = propertiesOf<Queue>(template, deadLetterId);
  const errors: string[] = [];
  if (!(maxReceiveCount >= FEWEST_RECEIVES)) {
    errors.push(`${id}.RedrivePolicy.maxReceiveCount: ${maxReceiveCount} is below ${FEWEST_RECEIVES}`);
  }
  if (Boolean(queue.FifoQueue) !== Boolean(deadLetter.FifoQueue)) {
    errors.push(`${deadLetterId}.FifoQueue: differs from that of ${id}, whose dead letters it takes`);
  }
  if (retention(deadLetter) < retention(queue)) {
    errors.push(
      `${deadLetterId}.MessageRetentionPeriod: ${retention(deadLetter)} is below that of ${id}, ${retention(queue)}`,
    );
  }
  if (deadLetter.RedriveAllowPolicy?.redrivePermission !== 'byQueue') {
    errors.push(`${deadLetterId}.RedriveAllowPolicy: any queue may put its dead letters there`);
  }
  return errors;
}

function overTlsOnly(template: Template, queueId: string): boolean {
  return resourcesOf<QueuePolicy>(template, 'AWS::SQS::QueuePolicy').some(({ properties }) => {
    if (!(properties.Queues ?? []).some((queue) => referent(queue) === queueId)) return false;
    const document = properties.PolicyDocument;
    const statements = isObject(document) ? [document['Statement']].flat() : [];
    return statements.some((statement) => deniesPlain(statement, queueId));
  });
}

/** Whole statement: one more condition, one action of many or one principal of many would leave a way without TLS. */
function deniesPlain(statement: unknown, queueId: string): boolean {
  if (!isObject(statement)) return false;
  const { Effect, Principal, Action, Resource, Condition } = statement;
  const condition = JSON.stringify(Condition)?.replace(':false}', ':"false"}');
  return (
    Effect === 'Deny' &&
    Principal === '*' &&
    [Action].flat().includes('sqs:*') &&
    [Resource].flat().some((resource) => referent(resource) === queueId) &&
    condition === '{"Bool":{"aws:SecureTransport":"false"}}'
  );
}

const isShortLived = (queue: Partial<Queue>): boolean => retention(queue) <= SHORT_LIVED_SECONDS;

const retention = (queue: Partial<Queue>): number =>
  queue.MessageRetentionPeriod ?? DEFAULT_RETENTION_SECONDS;

function propertiesOf<T>(template: Template, id: string): Partial<T> {
  return (template.Resources[id]?.Properties ?? {}) as Partial<T>;
}
