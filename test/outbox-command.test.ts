// What a person asks of the outbox: `npm run outbox` here, `npx outbox` in a project that has the library.

import { beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { main } from '../infra/outbox.ts';
import { questionOf } from '../infra/questions.ts';
import { storeOf, type Store } from '../functions/shared/store.ts';
import { createDatabase, createPrisma, type TestDatabase } from './support/database.ts';
import { insertEvent, insertEvents, parked } from './support/factories.ts';
import { stateCounts } from './support/relay.ts';

const ID = '3f0b5c1e-9a41-4d7e-8f0a-6f9d3f1f2b11';

let db: TestDatabase;
let store: Store;
beforeAll(async () => {
  db = await createDatabase();
  store = storeOf(createPrisma(db.url, { max: 1 }));
});
beforeEach(() => db.sql('TRUNCATE outbox_event, applied_event'));

const ask = async (...args: string[]) => (await questionOf(args)?.(store)) ?? 'no such question';
const fields = (said: string) => said.split('\n').map((line) => line.split('\t'));

/** What it writes, and its exit code. */
const carriedOut = async (args: string[], url?: string) => {
  const written: string[] = [];
  const write = (text: unknown) => written.push(String(text)) > 0;
  vi.spyOn(process.stdout, 'write').mockImplementation(write);
  vi.spyOn(process.stderr, 'write').mockImplementation(write);
  vi.stubEnv('DATABASE_URL', url);
  const code = await main(args);
  vi.restoreAllMocks();
  return { code, said: written.join('') };
};

describe('where', () => {
  test('tells each destination of the event, and who applied it', async () => {
    await insertEvents(db, 2, (n) => ({
      eventId: ID,
      destination: ['stock', 'mail'][n] ?? '',
      lastError: 'Busy',
    }));
    await db.sql("INSERT INTO applied_event (consumer, source, event_id) VALUES ('billing', '/orders', $1)", [
      ID,
    ]);
    const said = await ask('where', ID);
    expect(said.match(/^ {2}destination +\w+$/gm)).toEqual(['  destination  mail', '  destination  stock']);
    expect(said).toMatch(/state +PENDING[^]*lastError +Busy[^]*appliedBy +billing/);
  });

  test('says that it does not know one, and what is no id', async () => {
    expect(await ask('where', ID)).toMatch(/^not in the outbox/);
    await expect(ask('where')).rejects.toThrow('where: expected an event id');
    await expect(ask('where', 'nope')).rejects.toThrow('event id: expected a UUID, got "nope"');
  });
});

describe('parked, pending', () => {
  test('count by destination, type and reason, most first, with the id of one of each', async () => {
    await insertEvents(db, 3, parked({ parkReason: 'TooLarge: 2 MB' }));
    const refused = await insertEvent(db, parked({ destination: 'mail', parkReason: 'Refused: no' }));
    await insertEvents(db, 2, {
      destination: 'biling',
      lastError: 'UnknownDestination: biling is not configured',
    });
    const [head, ...lines] = fields(await ask('parked'));
    expect(head).toEqual(['count', 'destination', 'type', 'reason', 'since', 'example']);
    expect(lines.map((line) => line.slice(0, 4))).toEqual([
      ['3', 'stock', 'order.placed', 'TooLarge'],
      ['1', 'mail', 'order.placed', 'Refused'],
    ]);
    expect(lines[1]?.[5]).toBe(refused.eventId);
    expect(lines[1]?.[4]).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
    expect(fields(await ask('pending'))[1]?.slice(0, 4)).toEqual([
      '2',
      'biling',
      'order.placed',
      'UnknownDestination',
    ]);
  });

  test('of some of them, when asked so, and of nothing else', async () => {
    await insertEvents(db, 2, (n) => ({ destination: ['stock', 'mail'][n] ?? '' }));
    expect(
      fields(await ask('pending', '--destination', 'mail'))
        .slice(1)
        .map((line) => line[1]),
    ).toEqual(['mail']);
    expect(await ask('pending', '--reason', 'Unavailable')).toBe('nothing is pending');
    // What is shown is what the same choice would send again, to the end of a reason, wherever the options stand.
    await insertEvents(db, 2, (n) => parked({ parkReason: ['TooLarge: 2 MB', 'TooLarge: 3 MB'][n] ?? '' }));
    expect(await ask('--reason', 'TooLarge: 2', 'parked')).toMatch(/\n1\t/);
    expect(await ask('--reason', 'TooLarge: 2', 'replay')).toBe('1 event will be sent again');
    await expect(ask('pending', '--id', ID)).rejects.toThrow('`outbox where ID` tells of a single event');
    await expect(ask('parked', 'mail')).rejects.toThrow('parked: unexpected argument "mail"');
    await expect(ask('where', ID, 'mail')).rejects.toThrow('where: unexpected argument "mail"');
  });

  test('say when there is nothing', async () => {
    expect(await ask('parked')).toBe('nothing is parked');
    expect(await ask('pending')).toBe('nothing is pending');
    await insertEvent(db);
    expect(await ask('pending')).toMatch(/\n1\tstock\torder\.placed\t-\t/);
  });
});

describe('replay, discard', () => {
  test('take what was chosen, and say how many', async () => {
    await insertEvents(db, 3, parked({ parkReason: 'TooLarge: 2 MB' }));
    await insertEvents(db, 2, parked({ parkReason: 'Refused: no' }));
    expect(await ask('replay', '--reason', 'TooLarge', '--destination', 'stock')).toBe(
      '3 events will be sent again',
    );
    expect(await ask('discard', '--type', 'order.placed')).toBe('2 events deleted');
    expect(await stateCounts(db)).toEqual({ PENDING: 3 });
  });

  test.each(['replay', 'discard'])(
    '%s wants a choice, and tells where an event is that is not parked',
    async (command) => {
      const { eventId } = await insertEvent(db);
      await expect(ask(command)).rejects.toThrow(
        'expected at least one of --id, --destination, --type, --reason',
      );
      expect(await ask(command, '--id', eventId)).toMatch(
        /^0 events .*; it is PENDING \(stock\), not parked$/,
      );
      expect(await ask(command, '--id', ID)).toMatch(/^0 events .*; it is not in the outbox$/);
      expect(await stateCounts(db)).toEqual({ PENDING: 1 });
    },
  );
});

describe('the command', () => {
  test('asks the database of DATABASE_URL', async () => {
    await insertEvent(db, { eventId: ID });
    const { code, said } = await carriedOut(['where', ID], db.url);
    expect([code, said]).toEqual([0, expect.stringMatching(/state +PENDING/)]);
  });

  test('says what is wrong in a sentence, and ends with 1', async () => {
    const empty = await createDatabase({ migrated: false });
    const cases: [string[], string | undefined, RegExp][] = [
      [
        ['wher', ID],
        db.url,
        /^no command "wher"; expected one of where, parked, pending, replay, discard, init, doctor/,
      ],
      [['parked'], undefined, /DATABASE_URL: is not set/],
      [
        ['parked'],
        empty.url,
        /"outbox_event" does not exist; its migrations are not applied to this database/,
      ],
    ];
    for (const [args, url, said] of cases)
      expect(await carriedOut(args, url)).toEqual({ code: 1, said: expect.stringMatching(said) });
  });

  test('without one, or asked for help, lists them', async () => {
    for (const args of [[], ['--help'], ['where', '--help']]) {
      expect(await carriedOut(args)).toEqual({ code: 0, said: expect.stringContaining('outbox where ID') });
    }
  });
});
