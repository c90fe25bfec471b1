// The packaged CloudFormation template, as every check reads it.

/** A resource as the packager wrote it. */
export interface Resource {
  Type: string;
  Properties?: Record<string, unknown>;
  Condition?: string;
  DependsOn?: string | string[];
}

/** A whole template. */
export interface Template {
  Resources: Record<string, Resource>;
  Conditions?: Record<string, unknown>;
  Outputs?: Record<string, unknown>;
}

/** The resources of one type, with their logical ids and properties. */
export function resourcesOf<T = Record<string, unknown>>(
  { Resources }: Template,
  type: string,
): { id: string; properties: Partial<T> }[] {
  return Object.entries(Resources)
    .filter(([, resource]) => resource.Type === type)
    .map(([id, { Properties = {} }]) => ({ id, properties: Properties as Partial<T> }));
}

/** The logical id that a `Ref`, a `Fn::GetAtt` or a one-name `Fn::Sub` refers to; undefined for anything else. */
export function referent(value: unknown): string | undefined {
  if (!isObject(value)) return undefined;
  if (typeof value['Ref'] === 'string') return value['Ref'];
  const attribute = value['Fn::GetAtt'];
  if (Array.isArray(attribute)) return String(attribute[0]);
  return typeof attribute === 'string' ? attribute.split('.')[0] : undefined;
}

/** True for an object that is neither null nor a list. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * What a value may turn out to be when it is deployed, as a flat list: each item of a list, and both branches of an
 * `Fn::If`. `AWS::NoValue` is nothing.
 */
export function alternativesOf(value: unknown): unknown[] {
  if (value === undefined) return [];
  if (Array.isArray(value)) return value.flatMap(alternativesOf);
  if (!isObject(value)) return [value];
  if (value['Ref'] === 'AWS::NoValue') return [];
  const choice = value['Fn::If'];
  return Array.isArray(choice) ? alternativesOf(choice.slice(1)) : [value];
}
