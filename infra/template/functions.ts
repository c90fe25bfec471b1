// Functions and schedules: what Lambda and Scheduler accept in silence.

import { WAYS } from '../../functions/shared/database-settings.ts';
import { referent, resourcesOf, type Template } from './document.ts';

interface Lambda {
  FunctionName: string;
  Runtime: string;
  Architectures: string[];
  Role: unknown;
  Timeout: number;
  Environment: { Variables?: Record<string, unknown> };
}
interface Schedule {
  State: string;
  GroupName: unknown;
  Target: { RetryPolicy?: { MaximumRetryAttempts?: number } };
}

/** AWS's description of Lambda does not list what these two may be. */
const RUNTIME = 'nodejs24.x';
const ARCHITECTURE = 'arm64';

/**
 * Functions with another runtime, without a role or a log group of their own or a way to the database, leases that
 * end before their relay, and schedules that would repeat or leave their group.
 *
 * @returns one line each, beginning with the logical id and the property; empty when nothing was found.
 */
export function functionErrors(template: Template): string[] {
  const lambdas = resourcesOf<Lambda>(template, 'AWS::Lambda::Function');
  const roles = lambdas.map(({ properties }) => referent(properties.Role));
  return [
    ...lambdas.flatMap(({ id, properties }) => [
      ...lambdaErrors(id, properties),
      ...logErrors(template, id, properties.FunctionName ?? ''),
      ...(roles.filter((role) => role === referent(properties.Role)).length > 1
        ? [`${id}.Role: shares its role with another function`]
        : []),
    ]),
    ...resourcesOf<Schedule>(template, 'AWS::Scheduler::Schedule').flatMap(scheduleErrors),
  ];
}

function lambdaErrors(id: string, lambda: Partial<Lambda>): string[] {
  const variables = lambda.Environment?.Variables ?? {};
  const ways = WAYS.filter((way) => way in variables);
  const lease = Number(variables['OUTBOX_LEASE_SECONDS'] ?? Infinity);
  const errors: string[] = [];
  if (lambda.Runtime !== RUNTIME) errors.push(`${id}.Runtime: ${lambda.Runtime} is not ${RUNTIME}`);
  if (lambda.Architectures?.join() !== ARCHITECTURE) errors.push(`${id}.Architectures: not ${ARCHITECTURE}`);
  if (ways.length !== 1) {
    errors.push(
      `${id}.Environment: exactly one of ${WAYS.join(', ')} is needed, has ${ways.join(', ') || 'none'}`,
    );
  }
  if (lease <= (lambda.Timeout ?? 0)) {
    errors.push(
      `${id}.Environment.OUTBOX_LEASE_SECONDS: ${lease} ends before the function's timeout of ${lambda.Timeout} s`,
    );
  }
  const said = variables['OUTBOX_FUNCTION_TIMEOUT_SECONDS'];
  if (said !== undefined && Number(said) !== lambda.Timeout) {
    errors.push(
      `${id}.Environment.OUTBOX_FUNCTION_TIMEOUT_SECONDS: says ${JSON.stringify(said)}, the function has ${lambda.Timeout}`,
    );
  }
  return errors;
}

function logErrors(template: Template, id: string, functionName: string): string[] {
  const groups = resourcesOf<{ LogGroupName: string; RetentionInDays: number }>(
    template,
    'AWS::Logs::LogGroup',
  );
  const group = groups.find(({ properties }) => properties.LogGroupName === `/aws/lambda/${functionName}`);
  if (!group) return [`${id}: has no log group, so Lambda makes one that keeps its log for ever`];
  if (group.properties.RetentionInDays === undefined) {
    return [`${group.id}.RetentionInDays: missing; the log is kept for ever`];
  }
  return [];
}

function scheduleErrors({ id, properties }: { id: string; properties: Partial<Schedule> }): string[] {
  const errors: string[] = [];
  if (properties.State === undefined) errors.push(`${id}.State: missing`);
  if (referent(properties.GroupName) === undefined) {
    errors.push(`${id}.GroupName: not in the stack's own group, which its role trusts`);
  }
  if (properties.Target?.RetryPolicy?.MaximumRetryAttempts !== 0) {
    errors.push(
      `${id}.Target.RetryPolicy.MaximumRetryAttempts: not 0; Scheduler would repeat a late tick for a day`,
    );
  }
  return errors;
}
