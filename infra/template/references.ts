// Every reference of a template leads to something that is there.

import type { SpecDatabase } from '@aws-cdk/service-spec-types';
import { isObject, type Template } from './document.ts';
import { findSpec } from './schema.ts';

const PSEUDO_PARAMETERS = new Set(
  ['AccountId', 'Partition', 'Region', 'StackId', 'StackName', 'URLSuffix', 'NoValue'].map(
    (name) => `AWS::${name}`,
  ),
);

/**
 * References of the resources and outputs to resources, attributes and conditions that do not exist.
 *
 * @returns one line each, beginning with the place; empty when nothing was found.
 */
export function referenceErrors(database: SpecDatabase, template: Template): string[] {
  const { Resources, Outputs = {} } = template;
  const places = { ...Resources, ...Outputs };
  return Object.entries(places).flatMap(([id, value]) => errorsIn({ database, template }, id, value));
}

interface Known {
  database: SpecDatabase;
  template: Template;
}

function errorsIn(known: Known, at: string, value: unknown): string[] {
  if (Array.isArray(value)) {
    return value.flatMap((item, index) => errorsIn(known, `${at}[${index}]`, item));
  }
  if (!isObject(value)) return [];
  return Object.entries(value).flatMap(([key, item]) => {
    switch (key) {
      case 'Ref':
        return refErrors(known, at, String(item));
      case 'Fn::GetAtt':
        return attributeErrors(known, at, item);
      case 'Fn::Sub':
        return substitutionErrors(known, at, item);
      case 'DependsOn':
        return [item].flat().flatMap((id) => refErrors(known, `${at}.DependsOn`, String(id)));
      case 'Condition':
        // In a policy it is an object of another kind.
        return typeof item === 'string' ? conditionErrors(known, at, item) : errorsIn(known, at, item);
      case 'Fn::If': {
        const [condition, ...branches] = item as unknown[];
        return [...conditionErrors(known, at, String(condition)), ...errorsIn(known, at, branches)];
      }
      default:
        return errorsIn(known, key === 'Properties' ? at : `${at}.${key}`, item);
    }
  });
}

function substitutionErrors(known: Known, at: string, item: unknown): string[] {
  const [text, given] = (Array.isArray(item) ? item : [item, {}]) as [string, Record<string, unknown>];
  const names = [...text.matchAll(/\$\{([\w:.]+)\}/g)].map(([, name = '']) => name);
  const unknown = names
    .filter((name) => !(name in given))
    .flatMap((name) => (name.includes('.') ? attributeErrors(known, at, name) : refErrors(known, at, name)));
  return [...unknown, ...errorsIn(known, at, given)];
}

function refErrors({ template }: Known, at: string, name: string): string[] {
  return PSEUDO_PARAMETERS.has(name) || template.Resources[name] ? [] : [missing(at, name)];
}

function conditionErrors({ template }: Known, at: string, name: string): string[] {
  return template.Conditions && name in template.Conditions ? [] : [missing(at, `condition ${name}`)];
}

function attributeErrors({ database, template }: Known, at: string, item: unknown): string[] {
  const [id = '', ...rest] = [item].flat().join('.').split('.');
  const attribute = rest.join('.');
  const resource = template.Resources[id];
  if (!resource) return [missing(at, id)];
  const spec = findSpec(database, resource.Type);
  if (!spec || spec.attributes[attribute] || spec.properties[attribute]) return [];
  return [`${at}: ${resource.Type} (${id}) has no attribute ${attribute}`];
}

const missing = (at: string, name: string): string => `${at}: refers to ${name}, which is not there`;
