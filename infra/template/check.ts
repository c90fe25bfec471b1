// Every check of the packaged template, in one call.

import { loadAwsServiceSpec } from '@aws-cdk/aws-service-spec';
import { alarmErrors } from './alarms.ts';
import { isObject, type Template } from './document.ts';
import { functionErrors } from './functions.ts';
import { policyErrors } from './policies.ts';
import { queueErrors } from './queues.ts';
import { referenceErrors } from './references.ts';
import { schemaErrors } from './schema.ts';

let awsSpec: ReturnType<typeof loadAwsServiceSpec> | undefined;

/**
 * What AWS would refuse in a template, and what it would accept and should not; offline.
 *
 * @param runbook text of the Markdown document that the alarms' descriptions lead to
 * @returns one line each, beginning with the logical id and the property; empty when nothing was found.
 */
export async function templateErrors(template: Template, runbook: string): Promise<string[]> {
  const shapeless = shapeErrors(template);
  if (shapeless.length > 0) return shapeless;
  // A second's work, once.
  awsSpec ??= loadAwsServiceSpec();
  const database = await awsSpec;
  const refused = [...schemaErrors(database, template), ...referenceErrors(database, template)];
  // The other checks rely on the shapes that these have seen.
  if (refused.length > 0) return refused;
  return [
    ...policyErrors(template),
    ...queueErrors(template),
    ...functionErrors(template),
    ...alarmErrors(template, anchorsOf(runbook)),
  ];
}

/** What is no template at all, such as a resource whose text was commented out. */
function shapeErrors(template: unknown): string[] {
  const resources = isObject(template) ? template['Resources'] : undefined;
  if (!isObject(resources)) return ['Resources: must be an object'];
  return Object.entries(resources)
    .filter(([, resource]) => !isObject(resource) || typeof resource['Type'] !== 'string')
    .map(([id]) => `${id}: must be an object with a Type`);
}

/** The anchors that a Markdown document's headings get: lower case, spaces as hyphens, no punctuation. */
export function anchorsOf(markdown: string): Set<string> {
  const headings = [...markdown.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) => heading);
  return new Set(
    headings.map((heading) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\w\- ]/g, '')
        .replaceAll(' ', '-'),
    ),
  );
}
