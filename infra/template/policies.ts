// Least privilege: nothing is allowed on everything, and no service may borrow a role for somebody else.

import { alternativesOf, isObject, referent, resourcesOf, type Template } from './document.ts';
import { principalErrors, trustErrors } from './principals.ts';

interface Statement {
  Sid?: string;
  Effect?: unknown;
  Principal?: unknown;
  Action?: unknown;
  Resource?: unknown;
  Condition?: unknown;
}
/** A policy's place and text, and whether it says who may take a role. */
interface Document {
  at: string;
  text: unknown;
  isTrust?: boolean;
}

/** What may be allowed on every resource, by Sid: docs/decisions/0021-wildcards-in-policies.md says why. */
export const ALLOWED_ON_EVERYTHING: Readonly<Record<string, RegExp>> = {
  LambdaKeepsNetworkInterfaces:
    /^ec2:(Create|Describe|Delete)NetworkInterfaces?$|^ec2:DescribeSubnets$|^ec2:(Una|A)ssignPrivateIpAddresses$/,
};

/** `*` stands for any characters and `?` for any one. */
const WILDCARD = /[*?]/;

/**
 * Statements that allow more than they must: a wildcard in an action or a resource, anybody as principal, `NotAction`
 * and the like, trust in an account or in a service without the account it acts for, and policies from outside the
 * template, whose statements nobody sees here. Denials take nothing and may be as wide as they like.
 *
 * @returns one line each, beginning with the policy's place; empty when nothing was found.
 */
export function policyErrors(template: Template): string[] {
  return [...documentsOf(template).flatMap(documentErrors), ...managedPolicyErrors(template)];
}

function documentsOf(template: Template): Document[] {
  const roles = resourcesOf<{ AssumeRolePolicyDocument: unknown; Policies: unknown }>(
    template,
    'AWS::IAM::Role',
  ).flatMap(({ id, properties: { AssumeRolePolicyDocument: trust, Policies } }) => [
    { at: `${id}.AssumeRolePolicyDocument`, text: trust, isTrust: true },
    ...alternativesOf(Policies)
      .filter(isObject)
      .map(({ PolicyName, PolicyDocument }) => ({
        at: `${id}.Policies.${String(PolicyName)}`,
        text: PolicyDocument,
      })),
  ]);
  const others = Object.entries(template.Resources)
    .filter(([, { Properties = {} }]) => isObject(Properties['PolicyDocument']))
    .map(([id, { Properties = {} }]) => ({ at: `${id}.PolicyDocument`, text: Properties['PolicyDocument'] }));
  return [...roles, ...others];
}

function documentErrors({ at, text, isTrust = false }: Document): string[] {
  const statements = alternativesOf(text).flatMap((document) =>
    isObject(document) ? alternativesOf(document['Statement']) : [document],
  );
  return statements.flatMap((statement: unknown, index) => {
    if (!isObject(statement)) return [`${at}[${index}]: is no statement`];
    if (statement['Effect'] === 'Deny') return [];
    const place = `${at}[${typeof statement['Sid'] === 'string' ? statement['Sid'] : index}]`;
    return [...statementErrors(place, statement), ...(isTrust ? trustErrors(place, statement) : [])];
  });
}

function statementErrors(at: string, statement: Statement): string[] {
  const actions = alternativesOf(statement.Action);
  const forbidden = ['NotAction', 'NotResource', 'NotPrincipal'].filter((key) => key in statement);
  return [
    ...actions.flatMap((action) => {
      if (typeof action !== 'string') return [`${at}.Action: ${JSON.stringify(action)} is not plain text`];
      return WILDCARD.test(action) ? [`${at}.Action: ${action} allows more than it names`] : [];
    }),
    ...forbidden.map((key) => `${at}.${key}: allows everything else`),
    ...resourceErrors(at, statement, actions),
    ...principalErrors(at, statement),
  ];
}

function resourceErrors(at: string, { Sid = '', Resource }: Statement, actions: unknown[]): string[] {
  const allowed = Object.hasOwn(ALLOWED_ON_EVERYTHING, Sid) ? ALLOWED_ON_EVERYTHING[Sid] : undefined;
  if (allowed && actions.every((action) => typeof action === 'string' && allowed.test(action))) return [];
  return alternativesOf(Resource)
    .map((resource) => JSON.stringify(resource))
    .filter((resource) => WILDCARD.test(resource))
    .map((resource) => `${at}.Resource: ${resource} is wider than one resource`);
}

function managedPolicyErrors(template: Template): string[] {
  const own = new Set(resourcesOf(template, 'AWS::IAM::ManagedPolicy').map(({ id }) => id));
  return resourcesOf<{ ManagedPolicyArns: unknown }>(template, 'AWS::IAM::Role').flatMap(
    ({ id, properties: { ManagedPolicyArns } }) =>
      alternativesOf(ManagedPolicyArns)
        .filter((policy) => !own.has(referent(policy) ?? ''))
        .map((policy) => `${id}.ManagedPolicyArns: ${JSON.stringify(policy)} is no policy of this template`),
  );
}
