// What happens, as lines a person reads: the time, what, which event.

import type { Delivery } from '../event-source.ts';
import type { ServedRequest } from '../http-api.ts';
import type { LogLine } from '../sandbox.ts';
import type { Step } from './steps.ts';

/** Turns what the stack tells into lines. */
export interface Display {
  step: (step: Step) => void;
  line: (line: LogLine) => void;
  delivery: (delivery: Delivery) => void;
  request: (request: ServedRequest) => void;
  error: (error: unknown) => void;
}

const WHAT_WIDTH = 11;

/** Makes a display that hands each line to `say`. */
export function display(say: (text: string) => void): Display {
  const show = (what: string, text: string, at = new Date()) =>
    say(`${at.toISOString().slice(11, 23)}  ${what.padEnd(WHAT_WIDTH)} ${text}`);
  /** Records that a consumer did not apply, by message id: which event it was, only the delivery knows. */
  const refused = new Map<string, { what: string; why: string }>();
  return {
    step: ({ at, step, eventId, detail }) => show(step, `${eventId}  ${detail}`, at),
    request: ({ method, path, status }) => show('request', `${method} ${path} → ${status}`),
    error: (error) => show('error', String(error)),
    line: (line) => {
      const { event, messageId, outcome, reason } = line.json ?? {};
      if (event === 'consumer.record') {
        const what = outcome === 'terminal' ? 'dead letter' : 'sent back';
        refused.set(String(messageId), { what, why: `by ${line.function}: ${String(reason)}` });
      } else if (!isShownOtherwise(line)) show(line.function, line.text);
    },
    delivery: ({ records, error, function: name }) => {
      if (error !== undefined) show('failed', `a batch of ${records.length} in ${name}: ${String(error)}`);
      for (const { messageId, body } of records) {
        const refusal = refused.get(messageId);
        refused.delete(messageId);
        if (refusal) show(refusal.what, `${eventIdIn(body)}  ${refusal.why}`);
      }
    },
  };
}

/** Ticks and batches whose counts the database shows step by step, and what is for CloudWatch alone. */
function isShownOtherwise({ json }: LogLine): boolean {
  switch (json?.['event']) {
    case 'relay.tick':
      return !json['fencedOut'] && !json['unanswered'];
    case 'consumer.batch':
      return !json['duplicates'];
    case 'gauge.measured':
      return true;
    default:
      return '_aws' in (json ?? {});
  }
}

function eventIdIn(body: string): string {
  try {
    return String((JSON.parse(body) as { id?: unknown }).id);
  } catch {
    return '(no event)';
  }
}
