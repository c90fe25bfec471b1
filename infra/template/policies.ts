// Least privilege: nothing is allowed on everything, and no service may borrow a role for somebody else.

import { isObject, listOf, resourcesOf, type Template } from './document.ts';

interface Statement {
  Sid?: string;
  Effect?: string;
  Principal?: unknown;
  Action?: string | string[];
  Resource?: unknown;
  Condition?: Record<string, unknown>;
}
interface Document {
  Statement?: Statement | Statement[];
}

/** What may be allowed on every resource, by Sid: docs/decisions/0021-wildcards-in-policies.md says why. */
export const ALLOWED_ON_EVERYTHING: Readonly<Record<string, RegExp>> = {
  LambdaKeepsNetworkInterfaces:
    /^ec2:(Create|Describe|Delete)NetworkInterfaces?$|^ec2:DescribeSubnets$|^ec2:(Una|A)ssignPrivateIpAddresses$/,
};

/** Services that act for many accounts and say for which one; Lambda does not when it assumes a function's role. */
const SAYS_FOR_WHOM = ['scheduler.amazonaws.com', 'rds.amazonaws.com', 'cloudwatch.amazonaws.com'];

/**
 * Statements that allow more than they must: `*` in an action, a resource or a principal, `NotAction` and the like,
 * and trust in a service without the account it acts for. Denials take nothing and may be as wide as they like.
 *
 * @returns one line each, beginning with the policy's place; empty when nothing was found.
 */
export function policyErrors(template: Template): string[] {
  return documentsOf(template).flatMap(([at, document]) =>
    listOf(document.Statement).flatMap((statement, index) =>
      statement.Effect === 'Deny' ? [] : statementErrors(`${at}[${statement.Sid ?? index}]`, statement),
    ),
  );
}

function documentsOf(template: Template): [at: string, document: Document][] {
  const roles = resourcesOf<{
    AssumeRolePolicyDocument: Document;
    Policies: { PolicyName: string; PolicyDocument: Document }[];
  }>(template, 'AWS::IAM::Role').flatMap(
    ({ id, properties: { AssumeRolePolicyDocument: trust = {}, Policies = [] } }) => [
      [`${id}.AssumeRolePolicyDocument`, trust] as [string, Document],
      ...Policies.map((policy): [string, Document] => [
        `${id}.Policies.${policy.PolicyName}`,
        policy.PolicyDocument,
      ]),
    ],
  );
  const others = Object.entries(template.Resources)
    .filter(([, { Properties = {} }]) => isObject(Properties['PolicyDocument']))
    .map(([id, { Properties = {} }]): [string, Document] => [
      `${id}.PolicyDocument`,
      Properties['PolicyDocument'] as Document,
    ]);
  return [...roles, ...others];
}

function statementErrors(at: string, statement: Statement): string[] {
  const actions = listOf(statement.Action);
  const wide = actions.filter((action) => action.includes('*'));
  const forbidden = ['NotAction', 'NotResource', 'NotPrincipal'].filter((key) => key in statement);
  return [
    ...wide.map((action) => `${at}.Action: ${action} allows more than it names`),
    ...forbidden.map((key) => `${at}.${key}: allows everything else`),
    ...resourceErrors(at, statement, actions),
    ...principalErrors(at, statement),
  ];
}

function resourceErrors(at: string, { Sid = '', Resource }: Statement, actions: string[]): string[] {
  const allowed = ALLOWED_ON_EVERYTHING[Sid];
  if (allowed && actions.every((action) => allowed.test(action))) return [];
  return listOf(Resource)
    .filter((resource) => JSON.stringify(resource).includes('*'))
    .map((resource) => `${at}.Resource: ${JSON.stringify(resource)} is wider than one resource`);
}

function principalErrors(at: string, { Principal, Condition = {} }: Statement): string[] {
  if (Principal === undefined) return [];
  if (JSON.stringify(Principal).includes('"*"')) return [`${at}.Principal: anybody`];
  const services = isObject(Principal) ? listOf(Principal['Service'] as string | string[]) : [];
  const conditions = JSON.stringify(Condition);
  return services
    .filter((service) => SAYS_FOR_WHOM.includes(service) && !conditions.includes('aws:SourceAccount'))
    .map((service) => `${at}.Condition: ${service} may act for any account without aws:SourceAccount`);
}
