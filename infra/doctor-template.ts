// What the doctor needs of a packaged template: its functions with their variables, as a cold start would read them.

import { UsageError } from './local/errors.ts';
import { isObject, resourcesOf, type Template } from './template/document.ts';

/** A function of the template. */
export interface DeployedFunction {
  /** Logical id, and the short name in it: `RelayLambdaFunction`, `relay`. */
  id: string;
  name: string;
  timeoutSeconds: number;
  /** The most sandboxes that Lambda starts of it, where that is set. */
  reservedConcurrency: number | undefined;
  /** Its variables, with stand-ins for what only a deploy knows. */
  environment: Record<string, string>;
  /** Resources of the template that each variable names. */
  refersTo: Record<string, string[]>;
}

const LAMBDA_DEFAULT_TIMEOUT = 3;
/** Of the shape that each setting asks for; the deploy puts the real ones in their place. */
const STAND_INS = {
  url: 'postgresql://127.0.0.1/outbox',
  secret: 'arn:aws:secretsmanager:eu-central-1:000000000000:secret:stand-in',
  queue: (id: string, isFifo: boolean) => `https://sqs.invalid/000000000000/${id}${isFifo ? '.fifo' : ''}`,
};

const PSEUDO_PARAMETERS: Readonly<Record<string, string>> = {
  'AWS::AccountId': '000000000000',
  'AWS::Partition': 'aws',
  'AWS::Region': 'eu-central-1',
  'AWS::StackName': 'stand-in',
  'AWS::URLSuffix': 'amazonaws.com',
};

/**
 * Takes what a file holds for a packaged template.
 *
 * @throws UsageError saying what was expected, when it is something else
 */
export function expectTemplate(json: unknown, file: string): Template {
  const expected = (found: string) =>
    new UsageError(`${file}: expected the template that \`serverless package\` writes, ${found}`);
  const resources = isObject(json) ? json['Resources'] : undefined;
  if (!isObject(resources)) throw expected('an object with Resources');
  for (const [id, resource] of Object.entries(resources)) {
    const isSound = isObject(resource) && typeof resource['Type'] === 'string';
    if (!isSound || !isObject(resource['Properties'] ?? {}))
      throw expected(`where ${id} is an object with a Type and Properties`);
  }
  return json as Template;
}

/** The functions of a template. A function's short name is what the packager made its logical id from. */
export function functionsOf(template: Template): DeployedFunction[] {
  return resourcesOf(template, 'AWS::Lambda::Function').map(({ id, properties }) => {
    const { Variables = {} } = (properties['Environment'] ?? {}) as { Variables?: Record<string, unknown> };
    const given = Object.entries(Variables);
    return {
      id,
      name: `${id.charAt(0).toLowerCase()}${id.slice(1)}`.replace(/LambdaFunction$/, ''),
      timeoutSeconds: Number(properties['Timeout'] ?? LAMBDA_DEFAULT_TIMEOUT),
      reservedConcurrency: reservedOf(properties),
      environment: Object.fromEntries(given.map(([key, value]) => [key, textOf(template, key, value)])),
      refersTo: Object.fromEntries(given.map(([key, value]) => [key, [...namesIn(value)]])),
    };
  });
}

function reservedOf({ ReservedConcurrentExecutions: reserved }: Record<string, unknown>): number | undefined {
  return reserved === undefined || Number.isNaN(Number(reserved)) ? undefined : Number(reserved);
}

/** The text that a deploy would make of a value, with a stand-in for each part that only it knows. */
function textOf(template: Template, key: string, value: unknown): string {
  const resolve = (part: unknown): string => {
    if (!isObject(part)) return String(part);
    const [name = ''] = namesIn(part);
    const { 'Fn::Sub': sub, 'Fn::Join': join, 'Fn::If': choice } = part;
    if (sub !== undefined) return substituted(sub, resolve, (found) => standIn(template, key, found));
    // A connection string made of stand-ins would be none.
    if (key.startsWith('DATABASE_')) return standIn(template, key, name);
    if (Array.isArray(join) && Array.isArray(join[1])) return join[1].map(resolve).join(String(join[0]));
    if (Array.isArray(choice)) return resolve(choice.slice(1).find((branch) => !isNothing(branch)));
    return standIn(template, key, name);
  };
  const text = resolve(value);
  const [name = ''] = namesIn(value);
  return text.includes('{{resolve:') ? standIn(template, key, name) : text;
}

/** An `Fn::Sub`: its text alone, or the text and a map of names that only it knows. */
function substituted(
  argument: unknown,
  resolve: (value: unknown) => string,
  stand: (name: string) => string,
): string {
  const [text, map]: unknown[] = Array.isArray(argument) ? argument : [argument];
  const given = isObject(map) ? map : {};
  return String(text)
    .replaceAll(/\$\{([^!}]+)\}/g, (_, name: string) => (name in given ? resolve(given[name]) : stand(name)))
    .replaceAll('${!', '${');
}

const isNothing = (value: unknown): boolean => isObject(value) && value['Ref'] === 'AWS::NoValue';

function standIn(template: Template, key: string, name: string): string {
  if (key === 'DATABASE_URL') return STAND_INS.url;
  if (key === 'DATABASE_SECRET_ARN') return STAND_INS.secret;
  if (key.startsWith('DATABASE_')) return key === 'DATABASE_PORT' ? '5432' : 'stand-in';
  const pseudo = PSEUDO_PARAMETERS[name];
  if (pseudo !== undefined) return pseudo;
  const id = name.split('.')[0] ?? '';
  return STAND_INS.queue(id, template.Resources[id]?.Properties?.['FifoQueue'] === true);
}

/** Every logical id that a value names by Ref, Fn::GetAtt or within an Fn::Sub. */
export function* namesIn(value: unknown): Generator<string> {
  if (Array.isArray(value)) for (const item of value) yield* namesIn(item);
  if (typeof value !== 'object' || value === null) return;
  for (const [key, argument] of Object.entries(value)) {
    if (key === 'Ref') yield String(argument);
    else if (key === 'Fn::GetAtt') yield String([argument].flat().join('.').split('.')[0]);
    else if (key === 'Fn::Sub') {
      const [text, given] = [argument].flat() as unknown[];
      for (const [, name = ''] of String(text).matchAll(/\$\{([^!.}]+)[^}]*\}/g))
        if (!isObject(given) || !(name in given)) yield name;
      yield* namesIn(given);
    } else yield* namesIn(argument);
  }
}
