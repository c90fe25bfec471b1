// The packaged CloudFormation template: its resources, and the values its functions resolve to on this machine.

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { UsageError } from './errors.ts';

/** One resource as the packager wrote it. */
export interface Resource {
  Type: string;
  Properties?: Properties;
}

/** A resource's properties, their intrinsic functions unresolved. */
export type Properties = Record<string, unknown>;

/** Logical id → resource, and the folder that artifacts' paths are relative to. */
export interface Template {
  resources: Record<string, Resource>;
  /** `FunctionName` → its short name, such as `relay`, and its zip. */
  artifacts: Record<string, { name: string; zip: string }>;
  /** `<service>-<stage>`. */
  stackName: string;
}

/** What `Ref` and each `Fn::GetAtt` of a resource give. */
export type Attributes = Record<string, string>;

export const REGION = 'eu-central-1';
export const ACCOUNT = '000000000000';

const PSEUDO: Record<string, string> = {
  'AWS::Region': REGION,
  'AWS::AccountId': ACCOUNT,
  'AWS::Partition': 'aws',
  'AWS::URLSuffix': 'amazonaws.com',
};

interface State {
  service: {
    service: string;
    functions: Record<string, { name: string; package: { artifact: string } }>;
    provider: { stage: string };
  };
}

/**
 * Reads what `npm run package` left in `.serverless/` below `directory`. Throws when nothing is there.
 */
export async function readTemplate(directory: string): Promise<Template> {
  const packaged = join(directory, '.serverless');
  const template = await readJson<{ Resources: Record<string, Resource> }>(
    join(packaged, 'cloudformation-template-update-stack.json'),
  );
  const { service } = await readJson<State>(join(packaged, 'serverless-state.json'));
  const artifacts = Object.entries(service.functions).map(([name, f]) => [
    f.name,
    { name, zip: join(directory, f.package.artifact) },
  ]);
  return {
    resources: template.Resources,
    artifacts: Object.fromEntries(artifacts) as Template['artifacts'],
    stackName: `${service.service}-${service.provider.stage}`,
  };
}

async function readJson<T>(file: string): Promise<T> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as T;
  } catch (cause) {
    throw new UsageError(`No packaged template at ${file}; run \`npm run package\` first.`, { cause });
  }
}

/** The resources of one type, each with its logical id. */
export function resourcesOf(template: Template, type: string): { id: string; properties: Properties }[] {
  return Object.entries(template.resources)
    .filter(([, resource]) => resource.Type === type)
    .map(([id, resource]) => ({ id, properties: resource.Properties ?? {} }));
}

/**
 * Replaces `Ref`, `Fn::GetAtt`, `Fn::Sub` and `Fn::Join` in a value. A resource that does not exist locally
 * (a role, an alarm) becomes the text `local:<logical id>`. Any other function throws with its name.
 */
export function resolve(value: unknown, known: Record<string, Attributes>): unknown {
  if (Array.isArray(value)) return value.map((item) => resolve(item, known));
  if (typeof value !== 'object' || value === null) return value;
  const [[key, argument] = ['', undefined], ...others] = Object.entries(value);
  if (others.length > 0 || !(key === 'Ref' || key.startsWith('Fn::')))
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, resolve(item, known)]));
  switch (key) {
    case 'Ref':
      return attribute(String(argument), 'Ref', known);
    case 'Fn::GetAtt': {
      const [id = '', name = ''] = Array.isArray(argument)
        ? argument.map(String)
        : String(argument).split(/\.(.*)/s);
      return attribute(id, name, known);
    }
    case 'Fn::Join': {
      const [separator, parts] = argument as [string, unknown[]];
      return parts.map((part) => String(resolve(part, known))).join(separator);
    }
    case 'Fn::Sub':
      return substitute(argument, known);
    default:
      throw new Error(`The local stack knows no ${key} (in ${JSON.stringify(value)}).`);
  }
}

function substitute(argument: unknown, known: Record<string, Attributes>): string {
  const [text, given] = (Array.isArray(argument) ? argument : [argument, {}]) as [
    string,
    Record<string, unknown>,
  ];
  return text.replace(/\$\{(!?)([^}]+)\}/g, (_whole, literal: string, name: string) => {
    if (literal !== '') return `\${${name}}`;
    if (name in given) return String(resolve(given[name], known));
    const [id = '', path] = name.split(/\.(.*)/s);
    return attribute(id, path ?? 'Ref', known);
  });
}

function attribute(id: string, name: string, known: Record<string, Attributes>): string {
  return PSEUDO[id] ?? known[id]?.[name] ?? `local:${id}`;
}
