// The template's functions, with the environment they would have on Lambda.

import { devNull } from 'node:os';
import { createFunction, type LocalFunction } from './function.ts';
import type { InvocationError, LogLine } from './sandbox.ts';
import {
  ACCOUNT,
  REGION,
  resolve,
  resourcesOf,
  type Attributes,
  type Properties,
  type Template,
} from './template.ts';

/** What differs between this machine and the template. */
export interface Surroundings {
  sqsEndpoint: string;
  databaseUrl: string;
  /** Variables that replace the template's, by the function's short name; undefined removes one. */
  environment: Record<string, Record<string, string | undefined>>;
  onLine: (line: LogLine) => void;
  onInitFailed?: ((error: InvocationError) => void) | undefined;
}

/** As many sandboxes of one function as this machine should run; Lambda's own account limit is 1,000. */
const MOST_SANDBOXES = 10;

/** `Ref` and `Arn` of every function of the template. */
export function functionAttributes(template: Template): Record<string, Attributes> {
  const entries = resourcesOf(template, 'AWS::Lambda::Function').map(({ id, properties }) => {
    const name = String(properties['FunctionName']);
    return [id, { Ref: name, Arn: `arn:aws:lambda:${REGION}:${ACCOUNT}:function:${name}` }];
  });
  return Object.fromEntries(entries) as Record<string, Attributes>;
}

/** Makes every function of the template from its zip, by short name. */
export async function createFunctions(
  template: Template,
  known: Record<string, Attributes>,
  surroundings: Surroundings,
): Promise<Record<string, LocalFunction>> {
  const functions: Record<string, LocalFunction> = {};
  for (const { id, properties } of resourcesOf(template, 'AWS::Lambda::Function')) {
    const { Ref: fullName = '', Arn: arn = '' } = known[id] ?? {};
    const artifact = template.artifacts[fullName];
    if (!artifact) throw new Error(`${id}: the packager names no artifact for ${fullName}.`);
    functions[artifact.name] = await createFunction({
      ...artifact,
      arn,
      handler: String(properties['Handler']),
      timeoutSeconds: Number(properties['Timeout'] ?? 3),
      concurrency: Number(properties['ReservedConcurrentExecutions'] ?? MOST_SANDBOXES),
      environment: {
        ...lambdaEnvironment(fullName, properties, surroundings.sqsEndpoint),
        ...templateEnvironment(artifact.name, properties, known, surroundings),
      },
      onLine: surroundings.onLine,
      ...(surroundings.onInitFailed && { onInitFailed: surroundings.onInitFailed }),
    });
  }
  return functions;
}

function templateEnvironment(
  name: string,
  properties: Properties,
  known: Record<string, Attributes>,
  { databaseUrl, environment }: Surroundings,
): Record<string, string> {
  const { Variables = {} } =
    (resolve(properties['Environment'] ?? {}, known) as { Variables?: object }) ?? {};
  const given = Object.entries({ ...Variables, ...environment[name] })
    .filter(([, value]) => value !== undefined)
    // The one thing the template keeps in Parameter Store is the connection string.
    .map(([key, value]) => [key, String(value).startsWith('{{resolve:ssm') ? databaseUrl : String(value)]);
  return Object.fromEntries(given) as Record<string, string>;
}

function lambdaEnvironment(
  fullName: string,
  properties: Properties,
  sqsEndpoint: string,
): Record<string, string> {
  return {
    PATH: process.env['PATH'] ?? '',
    TZ: ':UTC',
    LANG: 'en_US.UTF-8',
    AWS_REGION: REGION,
    AWS_DEFAULT_REGION: REGION,
    AWS_ACCESS_KEY_ID: 'local',
    AWS_SECRET_ACCESS_KEY: 'local',
    AWS_ENDPOINT_URL_SQS: sqsEndpoint,
    // The user's own AWS set-up is none of the functions' business.
    AWS_CONFIG_FILE: devNull,
    AWS_SHARED_CREDENTIALS_FILE: devNull,
    AWS_EC2_METADATA_DISABLED: 'true',
    AWS_EXECUTION_ENV: 'AWS_Lambda_nodejs24.x',
    AWS_LAMBDA_FUNCTION_NAME: fullName,
    AWS_LAMBDA_FUNCTION_VERSION: '$LATEST',
    AWS_LAMBDA_FUNCTION_MEMORY_SIZE: String(properties['MemorySize'] ?? 128),
    AWS_LAMBDA_LOG_GROUP_NAME: `/aws/lambda/${fullName}`,
    AWS_LAMBDA_LOG_STREAM_NAME: 'local',
  };
}
