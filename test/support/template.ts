// The packaged template as its tests read it.

import type { Packaged, Resource } from './packaged.ts';

export const FUNCTIONS = ['relay', 'prune', 'gauge', 'migrate', 'orders', 'stock', 'history'];
/** Consumers, each with a queue and a dead-letter queue of its own. */
export const CONSUMERS = ['stock', 'history'];

export const capital = (name: string): string => name.charAt(0).toUpperCase() + name.slice(1);

export interface Lambda {
  Timeout: number;
  ReservedConcurrentExecutions?: number;
  Environment: { Variables: Record<string, unknown> };
}
export interface Queue {
  VisibilityTimeout: number;
  MessageRetentionPeriod: number;
  RedrivePolicy?: { maxReceiveCount: number };
  QueueName: string;
  FifoQueue?: boolean;
}
export interface Mapping {
  BatchSize: number;
  MaximumBatchingWindowInSeconds?: number;
  ScalingConfig: { MaximumConcurrency: number };
  EventSourceArn: { 'Fn::GetAtt': [queue: string, 'Arn'] };
  FunctionName: { 'Fn::GetAtt': [lambda: string, 'Arn'] };
}

export interface Arn {
  'Fn::GetAtt': [string, 'Arn'];
}
export interface Statement {
  Effect: string;
  Action: string | string[];
  Resource: Arn | Arn[];
}
export interface Role {
  AssumeRolePolicyDocument: unknown;
  Policies: { PolicyDocument: { Statement: Statement[] } }[];
}
export const queueOf = (consumer: string): string => `${capital(consumer)}Queue`;
export const deadLetterQueueOf = (consumer: string): string => `${capital(consumer)}DeadLetterQueue`;
export const mappingOf = (consumer: string): string =>
  `${capital(consumer)}EventSourceMappingSQS${queueOf(consumer)}`;

/** Ways to look things up in a template's resources. */
export function lookups(resources: Packaged['resources']) {
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- an assertion in one place instead of at each call
  const propertiesOf = <T = Record<string, unknown>>(logicalId: string): T => {
    const resource = resources[logicalId];
    if (!resource) throw new Error(`the template has no ${logicalId}`);
    return resource.Properties as T;
  };
  const lambdaOf = (name: string): Lambda => propertiesOf<Lambda>(`${capital(name)}LambdaFunction`);
  return {
    /** A resource's properties, of the type that the caller names. */
    propertiesOf,
    lambdaOf,
    variablesOf: (name: string): Record<string, unknown> => lambdaOf(name).Environment.Variables,
    named: (type: string): [string, Resource][] =>
      Object.entries(resources).filter(([, resource]) => resource.Type === type),
    /** What a role's own policies allow, as "action on logical id". */
    allowedTo: (role: string): string[] =>
      propertiesOf<Role>(role).Policies.flatMap(({ PolicyDocument }) =>
        PolicyDocument.Statement.flatMap(({ Action, Resource: at }) =>
          [Action]
            .flat()
            .flatMap((action) =>
              [at].flat().map((resource) => `${action} on ${resource['Fn::GetAtt'].join('.')}`),
            ),
        ),
      ),
  };
}
