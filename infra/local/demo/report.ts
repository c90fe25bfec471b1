// The end of a demo: its table, its reconciliation, and the same as one JSON object.

import type { Histories, Latency, Rows, RowsByDestination } from './counts.ts';
import type { Kill } from './faults.ts';
import type { Check } from './reconcile.ts';

/** Everything a demo found out. */
export interface Result {
  orders: { posted: number; different: number; repeated: number };
  /** Payments and shipments. */
  steps: { posted: number; paid: number; shipped: number; repeated: number };
  /** Outbox rows: an event that goes to two destinations is recorded in two. */
  recorded: number;
  published: number;
  applied: number;
  /** Deliveries that were recognised as duplicates. */
  duplicates: number;
  /** Messages that were sent again on purpose. */
  copies: number;
  retried: number;
  fencedOut: number;
  parked: number;
  parkReasons: Record<string, number>;
  destinations: RowsByDestination;
  histories: Histories;
  /** Events in the dead-letter queue. */
  deadLettered: number;
  deadLetterReasons: Record<string, number>;
  relaysAtOnce: number;
  killed: Kill | null;
  latencyMs: Latency;
  /** Of the events that were claimed once: without those that waited for a killed relay's lease. */
  latencyClaimedOnceMs: Latency;
  seconds: number;
  reconciled: boolean;
}

const ROWS_SHOWN = 10;
const LABEL_WIDTH = 28;

/** The table a person reads. */
export function tableOf(result: Result): string {
  const { orders, steps, histories, killed, latencyMs, latencyClaimedOnceMs: once } = result;
  const lines: [label: string, value: number | string, remark: string][] = [
    ['orders posted', orders.posted, `${count(orders.different)} different, ${orders.repeated} posted again`],
    [
      'payments and shipments',
      steps.posted,
      `${steps.paid} paid, ${steps.shipped} shipped, ${steps.repeated} again`,
    ],
    ['events recorded', result.recorded, `outbox rows, one per destination: ${each(result, 'recorded')}`],
    ['published', result.published, `by up to ${result.relaysAtOnce} relays at once`],
    ['fenced out', result.fencedOut, 'settled too late, and therefore not'],
    ['parked', result.parked, reasons(result.parkReasons)],
    ['effects applied', result.applied, each(result, 'applied')],
    [
      'histories in order',
      histories.inOrder,
      `of ${count(histories.of)}, with ${count(histories.steps)} steps`,
    ],
    ['duplicates absorbed', result.duplicates, `${result.copies} messages were sent twice on purpose`],
    ['deliveries sent back', result.retried, 'tried again later'],
    ['dead letters', result.deadLettered, reasons(result.deadLetterReasons)],
    ['commit → effect, p50 / p99', `${ms(latencyMs.p50)} / ${ms(latencyMs.p99)}`, 'ms, all events'],
    ['', `${ms(once.p50)} / ${ms(once.p99)}`, 'ms, events claimed once'],
  ];
  if (killed)
    lines.splice(4, 0, [
      'relay killed',
      `pid ${killed.pid}`,
      `it left ${killed.events} events under its lease`,
    ]);
  const width = Math.max(...lines.map(([, value]) => count(value).length));
  return lines
    .map(([label, value, remark]) =>
      `  ${label.padEnd(LABEL_WIDTH)}${count(value).padStart(width)}  ${remark}`.trimEnd(),
    )
    .join('\n');
}

const each = ({ destinations }: Result, name: keyof Rows) =>
  Object.entries(destinations)
    .map(([destination, rows]) => `${destination} ${count(rows[name])}`)
    .join(', ');
const count = (value: number | string) => (typeof value === 'number' ? value.toLocaleString('en') : value);
const ms = (value: number | null) => (value === null ? '–' : count(value));
const reasons = (kinds: Record<string, number>) =>
  Object.entries(kinds)
    .map(([kind, number]) => `${kind} (${number})`)
    .join(', ');

/** Each question with its answer, and below a wrong one the first rows that differ. */
export function checksOf(checks: Check[]): string {
  return checks
    .flatMap(({ question, differing }) => [
      `  ${differing.length === 0 ? 'yes' : 'NO '}  ${question}`,
      ...differing.slice(0, ROWS_SHOWN).map((row) => `         ${JSON.stringify(row)}`),
      ...(differing.length > ROWS_SHOWN ? [`         … ${differing.length} rows in all`] : []),
    ])
    .join('\n');
}
