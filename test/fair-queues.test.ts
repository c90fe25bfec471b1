// Fair queues: a standard queue is told by what to be fair, so that one loud tenant does not keep the others waiting.

import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { recordEvents } from '../functions/outbox/record.ts';
import { relayConfig } from '../functions/relay/config.ts';
import type { SqsDestination } from '../functions/relay/destination.ts';
import { tick } from '../functions/relay/tick.ts';
import type { Environment } from '../functions/shared/config.ts';
import { ConfigurationError } from '../functions/shared/errors.ts';
import type { PrismaClient } from '../prisma/client/client.ts';
import { createDatabase, createPrisma, type TestDatabase } from './support/database.ts';
import { relayParts } from './support/relay.ts';
import { startScriptedSqs, type ScriptedSqs } from './support/scripted-sqs.ts';

let db: TestDatabase;
let prisma: PrismaClient;
let sqs: ScriptedSqs;

beforeAll(async () => {
  db = await createDatabase();
  prisma = createPrisma(db.url, { max: 4 });
});
beforeEach(async () => {
  await db.sql('TRUNCATE outbox_event');
  sqs = await startScriptedSqs({ queues: { stock: {}, 'stock.fifo': {} } });
});

type FairBy = NonNullable<SqsDestination['fairBy']>;

/** Four events of two tenants, the first two with an ordering key; the groups their messages got, by payload number. */
async function groupsBy(fairBy?: FairBy, queue = 'stock'): Promise<(string | undefined)[]> {
  const { destinations } = relayConfig({
    DATABASE_URL: db.url,
    OUTBOX_DESTINATIONS: JSON.stringify({ stock: { kind: 'sqs', queueUrl: sqs.queueUrl(queue), fairBy } }),
  });
  const base = { destinations: ['stock'] };
  await prisma.$transaction((tx) =>
    recordEvents(tx, [
      { ...base, source: '/tenants/1', type: 'order.placed', payload: 0, orderingKey: 'ORDER-7' },
      { ...base, source: '/tenants/1', type: 'order.paid', payload: 1, orderingKey: 'käse 8' },
      { ...base, source: '/tenants/zwölf', type: 'order.placed', payload: 2 },
      { ...base, source: '/tenants/1', type: 'order.placed', payload: 3 },
    ]),
  );
  expect(await tick(relayParts(prisma, sqs, { destinations }), () => 20_000)).toMatchObject({
    acknowledged: 4,
  });
  const groups: (string | undefined)[] = [];
  for (const { body, groupId } of sqs.stored(queue)) {
    groups[(JSON.parse(body) as { data: number }).data] = groupId;
  }
  return groups;
}

/** SHA-256 in hexadecimal: what SQS would refuse as a group travels like this. */
const hashed = expect.stringMatching(/^[0-9a-f]{64}$/) as string;

describe('a standard queue that is to be fair', () => {
  test('by source', async () => {
    expect(await groupsBy('source')).toEqual(['/tenants/1', '/tenants/1', hashed, '/tenants/1']);
  });

  test('by type', async () => {
    expect(await groupsBy('type')).toEqual(['order.placed', 'order.paid', 'order.placed', 'order.placed']);
  });

  test('by partitionkey: an event without ordering key has no group', async () => {
    expect(await groupsBy('partitionkey')).toEqual(['ORDER-7', hashed, undefined, undefined]);
  });

  test('by nothing: no message has a group', async () => {
    expect(await groupsBy()).toEqual([undefined, undefined, undefined, undefined]);
  });
});

test('a FIFO queue is grouped by ordering key, and an event without one waits for no other', async () => {
  const [first, second, third, fourth] = await groupsBy(undefined, 'stock.fifo');
  expect([first, second]).toEqual(['ORDER-7', hashed]);
  const [idOfThird, idOfFourth] = sqs
    .stored('stock.fifo')
    .filter(({ body }) => !body.includes('partitionkey'))
    .map(({ body }) => (JSON.parse(body) as { id: string }).id);
  expect(new Set([third, fourth])).toEqual(new Set([idOfThird, idOfFourth]));
});

/** The lines of the refusal, each one problem; a configuration that is accepted fails the test. */
function refusal(destinations: unknown, more: Environment = {}): string[] {
  try {
    relayConfig({
      DATABASE_URL: 'postgresql://db/shop',
      OUTBOX_DESTINATIONS: typeof destinations === 'string' ? destinations : JSON.stringify(destinations),
      ...more,
    });
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigurationError);
    return (error as Error).message.split('\n').slice(1);
  }
  throw new Error('the configuration was accepted');
}

describe('a destination that cannot be meant stops the cold start, with the key and what was expected', () => {
  const queueUrl = 'https://sqs.eu-central-1.amazonaws.com/123456789012/stock';
  const stock = { kind: 'sqs', queueUrl };

  test.each<[what: string, problem: string[], destinations: unknown, more?: Environment]>([
    [
      'fairBy on a FIFO queue',
      ['OUTBOX_DESTINATIONS.stock.fairBy', 'standard queues', 'FIFO'],
      { stock: { ...stock, queueUrl: `${queueUrl}.fifo`, fairBy: 'source' } },
    ],
    [
      'fairBy of an attribute that there is not',
      ['OUTBOX_DESTINATIONS.stock.fairBy', 'source', 'type', 'partitionkey'],
      { stock: { ...stock, fairBy: 'tenant' } },
    ],
    [
      'a kind that there is not',
      ['OUTBOX_DESTINATIONS.stock.kind', 'sqs', 'eventbridge'],
      { stock: { ...stock, kind: 'sns' } },
    ],
    ['no kind', ['OUTBOX_DESTINATIONS.stock.kind', 'sqs', 'eventbridge'], { stock: { queueUrl } }],
    [
      'a misspelt key',
      ['OUTBOX_DESTINATIONS.stock', 'queueURL', 'queueUrl', 'parkedHead'],
      { stock: { ...stock, queueURL: queueUrl } },
    ],
    [
      'a key of the other kind',
      ['OUTBOX_DESTINATIONS.bus', 'fairBy', 'busName', 'parkedHead'],
      { bus: { kind: 'eventbridge', busName: 'orders', fairBy: 'source' } },
    ],
    ['no queue', ['OUTBOX_DESTINATIONS.stock.queueUrl', 'http(s) URL'], { stock: { kind: 'sqs' } }],
    [
      'a bus without a name',
      ['OUTBOX_DESTINATIONS.bus.busName'],
      { bus: { kind: 'eventbridge', busName: '' } },
    ],
    [
      'a parked head that is neither held nor skipped',
      ['OUTBOX_DESTINATIONS.stock.parkedHead', 'hold', 'skip'],
      { stock: { ...stock, parkedHead: 'drop' } },
    ],
    [
      'an operations destination that there is not',
      ['OUTBOX_OPERATIONS_DESTINATION', 'opps', 'OUTBOX_DESTINATIONS', 'stock'],
      { stock },
      { OUTBOX_OPERATIONS_DESTINATION: 'opps' },
    ],
    ['a name that no event can give', ['OUTBOX_DESTINATIONS.a b', 'letters, digits'], { 'a b': stock }],
    ['none at all', ['OUTBOX_DESTINATIONS', 'at least one'], {}],
    ['what is no JSON', ['OUTBOX_DESTINATIONS', 'JSON'], '{stock}'],
  ])('%s', (_, words, destinations, more) => {
    const problems = refusal(destinations, more);
    expect(problems).toContainEqual(expect.stringMatching(new RegExp(`^ {2}- ${words[0]}:`)));
    for (const word of words) expect(problems.join('\n')).toContain(word);
  });

  test('and one that can be is read with its defaults', () => {
    const { destinations, operationsDestination } = relayConfig({
      DATABASE_URL: 'postgresql://db/shop',
      OUTBOX_DESTINATIONS: JSON.stringify({ stock, bus: { kind: 'eventbridge', busName: 'orders' } }),
      OUTBOX_OPERATIONS_DESTINATION: 'bus',
    });
    expect(operationsDestination).toBe('bus');
    expect(destinations).toMatchObject({
      stock: { kind: 'sqs', queueUrl, parkedHead: 'hold', maxBytes: 1_048_576 },
      bus: { kind: 'eventbridge', busName: 'orders', parkedHead: 'hold' },
    });
  });
});
