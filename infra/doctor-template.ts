// What the doctor needs of a packaged template: its functions with their variables, as a cold start would read them.

/** The packaged template, as far as it is read here. */
export interface Template {
  Resources: Record<string, { Type: string; Properties?: Record<string, unknown> }>;
}

/** A function of the template. */
export interface DeployedFunction {
  /** Logical id, and the short name in it: `RelayLambdaFunction`, `relay`. */
  id: string;
  name: string;
  timeoutSeconds: number;
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

/** The functions of a template. A function's short name is what the packager made its logical id from. */
export function functionsOf(template: Template): DeployedFunction[] {
  return resourcesOf(template, 'AWS::Lambda::Function').map(([id, properties]) => {
    const { Variables = {} } = (properties['Environment'] ?? {}) as { Variables?: Record<string, unknown> };
    const given = Object.entries(Variables);
    return {
      id,
      name: `${id.charAt(0).toLowerCase()}${id.slice(1)}`.replace(/LambdaFunction$/, ''),
      timeoutSeconds: Number(properties['Timeout'] ?? LAMBDA_DEFAULT_TIMEOUT),
      environment: Object.fromEntries(given.map(([key, value]) => [key, textOf(template, key, value)])),
      refersTo: Object.fromEntries(given.map(([key, value]) => [key, [...namesIn(value)]])),
    };
  });
}

/** The resources of one type, with their logical ids. */
export const resourcesOf = (template: Template, type: string): [string, Record<string, unknown>][] =>
  Object.entries(template.Resources)
    .filter(([, resource]) => resource.Type === type)
    .map(([id, { Properties = {} }]) => [id, Properties]);

function textOf(template: Template, key: string, value: unknown): string {
  if (typeof value !== 'object' || value === null) {
    return String(value).includes('{{resolve:') ? standIn(template, key, '') : String(value);
  }
  const sub = (value as Record<string, unknown>)['Fn::Sub'];
  const text = typeof sub === 'string' ? sub : Array.isArray(sub) ? String(sub[0]) : undefined;
  const [name = ''] = namesIn(value);
  if (text === undefined || text.includes('{{resolve:')) return standIn(template, key, name);
  return text.replaceAll(/\$\{([^!}]+)\}/g, (_, reference: string) => standIn(template, key, reference));
}

function standIn(template: Template, key: string, name: string): string {
  if (key === 'DATABASE_URL') return STAND_INS.url;
  if (key === 'DATABASE_SECRET_ARN') return STAND_INS.secret;
  if (key.startsWith('DATABASE_')) return key === 'DATABASE_PORT' ? '5432' : 'stand-in';
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
    else if (key === 'Fn::Sub' && typeof argument === 'string')
      for (const [, name = ''] of argument.matchAll(/\$\{([^!.}]+)[^}]*\}/g)) yield name;
    else yield* namesIn(argument);
  }
}
