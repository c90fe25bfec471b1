// What a log line and a row's last_error say of whatever was thrown.

import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { describeError } from '../functions/shared/errors.ts';

class DriverAdapterError extends Error {
  override readonly name = 'DriverAdapterError';
}

test.each<[string, unknown, string]>([
  ['an error', new TypeError('no such thing'), 'TypeError: no such thing'],
  ['its causes', new Error('outer', { cause: new RangeError('inner') }), 'outer < RangeError: inner'],
  ['a code', Object.assign(new Error('refused'), { code: 'ECONNREFUSED' }), 'ECONNREFUSED: refused'],
  [
    'a cause that is no error, by its code alone',
    new DriverAdapterError('terminated', { cause: { code: '57P01', kind: 'postgres', column: {} } }),
    'DriverAdapterError: terminated < 57P01',
  ],
  [
    'a cause that says nothing',
    new DriverAdapterError('ConnectionClosed', { cause: { kind: 'ConnectionClosed' } }),
    'DriverAdapterError: ConnectionClosed',
  ],
  ['an error of another realm', runInNewContext('new TypeError("lost")'), 'TypeError: lost'],
  [
    'what PostgreSQL quotes in a cause that is no error',
    new DriverAdapterError('failed', {
      cause: { code: '22P02', message: 'invalid input syntax for type uuid: "secret"' },
    }),
    'DriverAdapterError: failed < 22P02: invalid input syntax for type uuid: "…"',
  ],
  ['text', 'no', 'no'],
  ['null', null, 'null'],
  ['nothing', '', 'nothing was said'],
  ['more than one line', new Error('a\n\u0000b'), 'a b'],
  [
    "what PostgreSQL quotes of the caller's data",
    new DriverAdapterError('invalid input syntax for type uuid: "secret"'),
    'DriverAdapterError: invalid input syntax for type uuid: "…"',
  ],
  [
    'what cannot be read',
    {
      get name() {
        throw new Error('trapped');
      },
    },
    'a value that cannot be described',
  ],
])('%s', (_, thrown, said) => {
  expect(describeError(thrown)).toBe(said);
});

test('a circle of causes ends', () => {
  const error = new Error('round');
  error.cause = error;
  expect(describeError(error)).toBe('round < round < round < round');
});
