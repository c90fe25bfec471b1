// Who may use what a policy allows, and who may take a role.

import { alternativesOf, isObject, referent } from './document.ts';

interface Statement {
  Principal?: unknown;
  Condition?: unknown;
}

/** Services that act for many accounts and say for which one; Lambda does not when it assumes a function's role. */
const SAYS_FOR_WHOM = ['scheduler.amazonaws.com', 'rds.amazonaws.com', 'cloudwatch.amazonaws.com'];

/** Anybody as principal, and services that act for other accounts too without a condition on the account. */
export function principalErrors(at: string, { Principal, Condition }: Statement): string[] {
  if (JSON.stringify(Principal)?.includes('"*"')) return [`${at}.Principal: anybody`];
  const services = alternativesOf(Principal).flatMap((principal) =>
    isObject(principal) ? alternativesOf(principal['Service']) : [],
  );
  const conditions = alternativesOf(Condition);
  const isBound = conditions.length > 0 && conditions.every(namesAccount);
  return services
    .filter((service) => SAYS_FOR_WHOM.includes(String(service)) && !isBound)
    .map(
      (service) =>
        `${at}.Condition: ${String(service)} may act for any account without StringEquals of aws:SourceAccount`,
    );
}

/** Trust of a role in anything but services: the functions' roles are for nobody else. */
export function trustErrors(at: string, { Principal }: Statement): string[] {
  return alternativesOf(Principal).flatMap((principal) => {
    if (!isObject(principal)) return [`${at}.Principal: ${JSON.stringify(principal)} is no service`];
    return Object.keys(principal)
      .filter((kind) => kind !== 'Service')
      .map(
        (kind) => `${at}.Principal: trusts ${kind} ${JSON.stringify(principal[kind])}, which is no service`,
      );
  });
}

/** Negated operators, those that end in IfExists, and patterns let other accounts pass. */
function namesAccount(condition: unknown): boolean {
  const equals = isObject(condition) ? condition['StringEquals'] : undefined;
  if (!isObject(equals)) return false;
  const accounts = Object.entries(equals)
    .filter(([key]) => key.toLowerCase() === 'aws:sourceaccount')
    .flatMap(([, value]) => alternativesOf(value));
  return (
    accounts.length > 0 &&
    accounts.every((account) => referent(account) === 'AWS::AccountId' || /^\d{12}$/.test(String(account)))
  );
}
