// Checks a template against AWS's own description of its resources, offline; osls checks nothing of `resources:`.

import type { PropertyType, Resource as ResourceSpec, SpecDatabase } from '@aws-cdk/service-spec-types';
import { isObject, type Template } from './document.ts';

type Properties = ResourceSpec['properties'];

const INTRINSIC = /^(Ref|Condition|Fn::\w+)$/;
const TAG: Properties = {
  Key: { type: { type: 'string' }, required: true },
  Value: { type: { type: 'string' }, required: true },
};
const PRIMITIVES: Readonly<Record<string, (value: unknown) => boolean>> = {
  string: (value) => typeof value !== 'object',
  number: isNumeric,
  integer: (value) => isNumeric(value) && Number.isInteger(Number(value)),
  boolean: (value) => ['true', 'false'].includes(String(value)),
  'date-time': (value) => typeof value === 'string',
  json: (value) => typeof value === 'object' || typeof value === 'string',
  null: (value) => value === null,
};

/**
 * What CloudFormation would refuse in a resource's own properties: an unknown type or property, a missing one, a
 * wrong type or word. It does not know the values of free text, such as a runtime's name.
 *
 * @returns one line each, beginning with the place; empty when nothing was found.
 */
export function schemaErrors(database: SpecDatabase, { Resources }: Template): string[] {
  return Object.entries(Resources).flatMap(([id, { Type, Properties = {} }]) => {
    const spec = findSpec(database, Type);
    return spec
      ? propertyErrors(database, id, Properties, spec.properties)
      : [`${id}: unknown resource type ${Type}`];
  });
}

/** AWS's description of a resource type, if there is such a type. */
export function findSpec(database: SpecDatabase, type: string): ResourceSpec | undefined {
  return database.lookup('resource', 'cloudFormationType', 'equals', type)[0];
}

function propertyErrors(database: SpecDatabase, at: string, value: unknown, specs: Properties): string[] {
  if (!isObject(value)) return [`${at}: must be an object`];
  const given = Object.entries(value).flatMap(([name, item]) => {
    const spec = specs[name];
    return spec
      ? valueErrors(database, `${at}.${name}`, item, spec.type)
      : [`${at}: unknown property ${name}`];
  });
  const missing = Object.entries(specs).filter(([name, spec]) => spec.required && value[name] === undefined);
  return [...given, ...missing.map(([name]) => `${at}: missing property ${name}`)];
}

function valueErrors(database: SpecDatabase, at: string, value: unknown, type: PropertyType): string[] {
  if (isIntrinsic(value)) return [];
  switch (type.type) {
    case 'array':
      if (!Array.isArray(value)) return [`${at}: must be a list`];
      return value.flatMap((item, index) => valueErrors(database, `${at}[${index}]`, item, type.element));
    case 'map':
      if (!isObject(value)) return [`${at}: must be a map`];
      return Object.entries(value).flatMap(([key, item]) =>
        valueErrors(database, `${at}.${key}`, item, type.element),
      );
    case 'ref': {
      const definition = database.get('typeDefinition', type.reference.$ref);
      return propertyErrors(database, at, value, definition.properties);
    }
    case 'tag':
      return propertyErrors(database, at, value, TAG);
    case 'union': {
      // Of the alternatives that all fail, the one that fits best says most.
      const tries = type.types.map((candidate) => valueErrors(database, at, value, candidate));
      return tries.toSorted((a, b) => a.length - b.length)[0] ?? [];
    }
    case 'string':
    case 'number':
    case 'integer':
    case 'boolean':
    case 'json':
    case 'date-time':
    case 'null':
      return primitiveErrors(at, value, type);
  }
}

function primitiveErrors(at: string, value: unknown, type: PropertyType): string[] {
  const shown = JSON.stringify(value);
  if (!PRIMITIVES[type.type]?.(value)) return [`${at}: must be ${type.type}, is ${shown}`];
  const allowed = 'allowedValues' in type ? type.allowedValues?.map(String) : undefined;
  if (allowed && !allowed.includes(String(value)))
    return [`${at}: ${shown} is not one of ${allowed.join(', ')}`];
  return [];
}

function isIntrinsic(value: unknown): boolean {
  const keys = isObject(value) ? Object.keys(value) : [];
  return keys.length === 1 && INTRINSIC.test(keys[0] ?? '');
}

function isNumeric(value: unknown): boolean {
  return (
    typeof value === 'number' || (typeof value === 'string' && value !== '' && !Number.isNaN(Number(value)))
  );
}
