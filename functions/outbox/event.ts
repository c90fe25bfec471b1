import type { StandardSchemaV1 } from '@standard-schema/spec';

/** What a producer gives to record: the attributes of a CloudEvent and where it goes. */
export interface EventInput<Type extends string = string, Payload = unknown> {
  /** CloudEvents type, such as `order.placed`. */
  readonly type: Type;
  /** Any JSON value; stored as the exact text of `JSON.stringify`. */
  readonly payload: Payload;
  /** CloudEvents source: the service or tenant namespace in which `id` is unique. */
  readonly source: string;
  /** Names of the relay's destinations; the event goes to each, with an outcome of its own. */
  readonly destinations: readonly string[];
  /** UUID; a version 7 one is made when absent. The same id and destination twice is one event. */
  readonly id?: string;
  /** Any text: events with the same key reach a FIFO destination in the order in which they committed. */
  readonly orderingKey?: string;
  /** Not to be sent before this time. At most one of `dueAt` and `delaySeconds`. */
  readonly dueAt?: Date;
  /** Not to be sent before this long after the transaction began (database clock). */
  readonly delaySeconds?: number;
  /** W3C `traceparent` that it belongs to; that of the active OpenTelemetry span when absent. */
  readonly traceParent?: string;
}

/** What an effect receives: the CloudEvent as it travelled, its data validated. */
export interface ReceivedEvent<Type extends string = string, Data = unknown> {
  readonly id: string;
  readonly source: string;
  readonly type: Type;
  /** RFC 3339, UTC: when the event was recorded. */
  readonly time?: string;
  /** The same, of an event that was recorded for later: when it fell due. */
  readonly dueTime?: string;
  /** The ordering key it was recorded with. */
  readonly orderingKey?: string;
  /** W3C `traceparent` of whatever recorded it. */
  readonly traceParent?: string;
  readonly data: Data;
}

/** Event types and the schema of each one's payload. */
export type Schemas = Readonly<Record<string, StandardSchemaV1>>;

/** A declaration of event types, shared by those who record them and those who apply them. */
export interface EventTypes<S extends Schemas = Schemas> {
  readonly schemas: S;
}

/** What may be recorded under the declaration `S`. */
export type InputOf<S extends Schemas> = {
  [T in keyof S & string]: EventInput<T, StandardSchemaV1.InferInput<S[T]>>;
}[keyof S & string];

/** What an effect for type `T` of the declaration `S` receives. */
export type ReceivedOf<S extends Schemas, T extends keyof S & string> = ReceivedEvent<
  T,
  StandardSchemaV1.InferOutput<S[T]>
>;

/**
 * Declares event types once: `defineEvents({ 'order.placed': schema })`, with any Standard Schema validator
 * (zod, valibot, arktype, …). Give the result to `recorder` on one side and to `consumer` on the other.
 */
export function defineEvents<const S extends Schemas>(schemas: S): EventTypes<S> {
  return { schemas };
}

/** A payload after its schema's own conversions, or what is wrong and where: `type`, `payload`, `payload.lines.0.sku`. */
export type Checked = { readonly value: unknown } | { readonly field: string; readonly problem: string };

/** Checks a payload against the declared schema of `type`. */
export async function checkPayload(
  { schemas }: EventTypes,
  type: string,
  payload: unknown,
): Promise<Checked> {
  const schema = Object.hasOwn(schemas, type) ? schemas[type] : undefined;
  if (!schema) return { field: 'type', problem: `no event type ${JSON.stringify(type)} is declared` };
  const result = await schema['~standard'].validate(payload);
  const [issue] = result.issues ?? [];
  if (!issue) return { value: (result as StandardSchemaV1.SuccessResult<unknown>).value };
  const keys = (issue.path ?? []).map((key) => (typeof key === 'object' ? key.key : key));
  return { field: ['payload', ...keys].map(String).join('.'), problem: issue.message };
}
