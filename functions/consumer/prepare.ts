import type { SQSRecord } from 'aws-lambda';
import { readEnvelope } from '../outbox/envelope.ts';
import { checkPayload, type EventTypes, type ReceivedEvent } from '../outbox/event.ts';
import { describeError } from '../shared/errors.ts';
import type { Applicable, ApplyOutcome, Effect } from './apply.ts';

/** A record on its way: ready to be applied, or settled before any transaction. */
export type Prepared =
  | { readonly record: SQSRecord; readonly applicable: Applicable }
  | { readonly record: SQSRecord; readonly outcome: ApplyOutcome };

/** A schema may say more than SQS, or a log line, has room for. */
const MAX_REASON = 500;

/**
 * Reads and validates one record. What can never be applied (not an envelope, a type without an effect, data that its
 * schema refuses) is terminal, with the reason. Never throws.
 */
export async function prepare(
  record: SQSRecord,
  types: EventTypes,
  effects: Readonly<Record<string, Effect | undefined>>,
): Promise<Prepared> {
  const terminal = (reason: string): Prepared => ({
    record,
    outcome: { kind: 'terminal', reason: reason.slice(0, MAX_REASON) },
  });
  try {
    const read = readEnvelope(record.body);
    if ('problem' in read) return terminal(`InvalidEnvelope: ${read.problem}`);
    const { data, ...attributes } = read.envelope;
    const effect = Object.hasOwn(effects, attributes.type) ? effects[attributes.type] : undefined;
    if (!effect) return terminal(`NoEffect: no effect for event type ${JSON.stringify(attributes.type)}`);
    const checked = await checkPayload(types, attributes.type, data);
    if ('problem' in checked) return terminal(`InvalidPayload: ${checked.field}: ${checked.problem}`);
    const event: ReceivedEvent = { ...attributes, data: checked.value };
    return { record, applicable: { event, effect } };
  } catch (error) {
    // Only a schema of the caller's can throw here, perhaps for want of something that will come back.
    return { record, outcome: { kind: 'retry', reason: describeError(error) } };
  }
}
