// A slice of the fault campaign (test/campaign): random programs under random faults, judged by a checker that reads
// nothing but the database and the queues. A history that fails prints its seed: npm run campaign -- --seed <seed>.

import { describe, expect, inject, test } from 'vitest';
import { faultsOf, runCampaign } from './campaign/campaign.ts';
import { check } from './campaign/checker.ts';
import { programOf } from './campaign/draw.ts';
import { STEP, SOURCE } from './campaign/effects.ts';
import type { Arrival, Committed, Evidence, Row } from './campaign/evidence.ts';
import { DEAD_LETTERS, FIFO, STANDARD } from './campaign/program.ts';
import { failureText } from './campaign/report.ts';
import { STILL_MS, stillness } from './campaign/rest.ts';
import { startTimeline } from './campaign/timeline.ts';
import { inScope } from './support/cleanup.ts';

/** In these ten, the server crashes, is restarted, and runs out of connections. */
const SEED = 9;
const HISTORIES = 10;

test('a seed decides its program, and another seed another', () => {
  expect(programOf(7)).toEqual(programOf(7));
  expect(programOf(7)).not.toEqual(programOf(8));
});

test('ten histories keep every promise under faults', async () => {
  const summary = await inScope(() =>
    runCampaign(inject('server'), { seed: SEED, histories: HISTORIES, sideBySide: 3 }),
  );
  expect(summary.failed.map(failureText).join('\n')).toBe('');
  expect(summary.histories).toBe(HISTORIES);
  expect(faultsOf(summary)).toBeGreaterThan(40);
  expect(summary.counts['events committed']).toBeGreaterThan(100);
  expect(summary.strikes).toMatchObject({
    'server crash': expect.any(Number),
    'server restart': expect.any(Number),
    'server crowd': expect.any(Number),
  });
}, 600_000);

const eventOf = (id: string, overrides: Partial<Committed> = {}): Committed => ({
  id,
  orderingKey: 'key',
  destinations: [FIFO],
  delaySeconds: 0,
  trait: 'plain',
  step: { transaction: 1, position: 0, trait: 'plain' },
  ...overrides,
});

const rowOf = (id: string, overrides: Partial<Row> = {}): Row => ({
  id,
  destination: FIFO,
  key: 'key',
  state: 'PUBLISHED',
  attempts: 1,
  held: false,
  messageId: `message of ${id}`,
  reason: null,
  ...overrides,
});

const arrivalOf = (id: string, overrides: Partial<Arrival> = {}): Arrival => ({
  id,
  messageId: `message of ${id}`,
  body: { id, source: SOURCE, type: STEP, partitionkey: 'key', data: eventOf(id).step },
  moved: false,
  gone: true,
  ...overrides,
});

const parkedRow = (id: string, reason = 'InvalidMessageContents: by script'): Row =>
  rowOf(id, { state: 'PARKED', messageId: null, reason });

/** Two events of one key that went as they should: `a`, then `b`. */
const sound: Evidence = {
  calm: false,
  hold: true,
  maxAttempts: 3,
  committed: new Map([
    ['a', eventOf('a')],
    ['b', eventOf('b')],
  ]),
  rows: [rowOf('a'), rowOf('b')],
  arrivals: { [STANDARD]: [], [FIFO]: [arrivalOf('a'), arrivalOf('b')], [DEAD_LETTERS]: [] },
  effects: [
    { consumer: FIFO, id: 'a' },
    { consumer: FIFO, id: 'b' },
  ],
  ledger: [
    { consumer: FIFO, id: 'b' },
    { consumer: FIFO, id: 'a' },
  ],
  order: new Map([['key', ['a', 'b']]]),
  openTransactions: 0,
  locks: 0,
};

const inFifo = (...arrivals: Arrival[]): Evidence['arrivals'] => ({ ...sound.arrivals, [FIFO]: arrivals });
const promises = (evidence: Partial<Evidence>) => [
  ...new Set(check({ ...sound, ...evidence }).map(({ promise }) => promise)),
];

describe('the checker', () => {
  test.each<[string, Partial<Evidence>]>([
    ['all went well', {}],
    ['a published row was pruned', { rows: [rowOf('a')] }],
    [
      'a queue got a message twice under faults',
      { arrivals: inFifo(arrivalOf('a'), arrivalOf('a'), arrivalOf('b')) },
    ],
    [
      'a parked head holds its key',
      {
        rows: [parkedRow('a'), rowOf('b', { state: 'PENDING', messageId: null })],
        arrivals: inFifo(),
        effects: [],
        ledger: [],
      },
    ],
  ])('has nothing to say when %s', (_, evidence) => {
    expect(promises(evidence)).toEqual([]);
  });

  test.each<[string, string, Partial<Evidence>]>([
    ['an event is nowhere', 'nothing is lost', { rows: [rowOf('a')], arrivals: inFifo(arrivalOf('a')) }],
    ['published, but not in the queue', 'nothing is lost', { arrivals: inFifo(arrivalOf('a')) }],
    ['still pending', 'nothing is lost', { rows: [rowOf('a'), rowOf('b', { state: 'PENDING' })] }],
    ['an unknown message id', 'nothing is lost', { rows: [rowOf('a', { messageId: 'none' }), rowOf('b')] }],
    [
      'rolled back, but sent',
      'nothing rolled back is sent or applied',
      { committed: new Map([['b', eventOf('b')]]) },
    ],
    [
      'a message with other data',
      'the queue holds only what was recorded',
      {
        arrivals: inFifo(
          arrivalOf('a', { body: { id: 'a', source: SOURCE, type: STEP, data: {} } }),
          arrivalOf('b'),
        ),
      },
    ],
    [
      'an effect twice',
      'each effect exactly once',
      { effects: [...sound.effects, { consumer: FIFO, id: 'b' }] },
    ],
    ['an effect missing', 'each effect exactly once', { effects: sound.effects.slice(0, 1) }],
    ['an effect without its ledger row', 'each effect exactly once', { ledger: sound.ledger.slice(0, 1) }],
    ['arrived out of order', 'order per key', { arrivals: inFifo(arrivalOf('b'), arrivalOf('a')) }],
    ['applied out of order', 'order per key', { effects: sound.effects.toReversed() }],
    [
      'a key went on past its parked event',
      'order per key',
      {
        rows: [parkedRow('a'), rowOf('b')],
        arrivals: inFifo(arrivalOf('b')),
        effects: sound.effects.slice(1),
        ledger: sound.ledger.slice(0, 1),
      },
    ],
    ['a lease is left', 'no lease is left behind', { rows: [rowOf('a', { held: true }), rowOf('b')] }],
    [
      'parked for nothing',
      'parked for a reason that is one',
      { rows: [parkedRow('a', 'ServiceUnavailable: down'), rowOf('b')] },
    ],
    ['too many attempts', 'attempts are limited', { rows: [rowOf('a', { attempts: 4 }), rowOf('b')] }],
    ['published by no attempt', 'attempts are counted', { rows: [rowOf('a', { attempts: 0 }), rowOf('b')] }],
    [
      'a message stays',
      'the queues run empty',
      { arrivals: inFifo(arrivalOf('a', { gone: false }), arrivalOf('b')) },
    ],
    ['a transaction stays open', 'no transaction is left behind', { openTransactions: 1 }],
    ['a lock stays', 'no transaction is left behind', { locks: 1 }],
    [
      'sent twice in calm',
      'without a fault nothing is sent twice',
      { calm: true, arrivals: inFifo(arrivalOf('a'), arrivalOf('a'), arrivalOf('b')) },
    ],
  ])('%s: %s', (_, promise, evidence) => {
    expect(promises(evidence)).toContain(promise);
  });
});

test('a history is given up when nothing moves any more, however slowly it moved until then', () => {
  let now = 0;
  const still = stillness((ms) => {
    const end = now + ms;
    return () => end - now;
  });
  for (const seen of ['one', 'two', 'three']) {
    still(seen);
    now += STILL_MS - 1;
    expect(still(seen)()).toBeGreaterThan(0);
  }
  now += 2;
  expect(still('three')()).toBeLessThan(0);
  expect(still('four')()).toBeGreaterThan(0);
});

test('a failure says how to run it again, what was broken, and what happened to the events concerned', () => {
  const timeline = startTimeline();
  timeline.add('relay-0', 'calls ledger.fifo', ['a-long-id', 'c']);
  timeline.add('relay-0', 'calls ledger.fifo', ['d']);
  timeline.strike('kill', 'relay-0', 'kill after claim');
  const text = failureText({
    seed: 1169,
    violations: [{ promise: 'nothing is lost', what: 'no row', ids: ['a-long-id'] }],
    timeline: timeline.about(new Set(['a-long-id'])),
    strikes: {},
    counts: {},
    milliseconds: 0,
  });
  expect(text.replaceAll(/ +\d+ ms/g, '    … ms').split('\n')).toEqual([
    '✗ history 1169 (again: npm run campaign -- --seed 1169)',
    '    nothing is lost: no row a-long-id',
    '    … ms  relay-0    calls ledger.fifo a-long-i',
    '    … ms  relay-0    ⚡ kill after claim ',
  ]);
});
