// Case D6: suites again with the database in New York and the processes in Kolkata, nine and a half hours apart. These
// are the ones in which time decides; all of them: TEST_TIME_ZONE=America/New_York TZ=Asia/Kolkata npm test

import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { createDatabase } from './support/database.ts';

const AGAIN = ['claim', 'settle', 'prune', 'elsewhere'].map((name) => `test/${name}.test.ts`);
const zone = process.env['TEST_TIME_ZONE'];

test.runIf(zone)('the database and this process really are there', async () => {
  const db = await createDatabase();
  expect(await db.sql('SHOW TimeZone')).toEqual([{ TimeZone: zone }]);
  if (process.env['TZ'] === 'Asia/Kolkata') expect(new Date(0).getHours()).toBe(5);
});

test.skipIf(zone)(
  'whatever is due, expired or old here is so there',
  async () => {
    const report = join(tmpdir(), `outbox-elsewhere-${process.pid}.json`);
    const env = {
      ...process.env,
      TEST_TIME_ZONE: 'America/New_York',
      TZ: 'Asia/Kolkata',
      // A given server is not ours to set.
      DATABASE_URL: '',
    };
    const vitest = ['node_modules/vitest/vitest.mjs', 'run', '--maxWorkers=1', ...AGAIN];
    const args = [...vitest, '--reporter=json', `--outputFile=${report}`];
    const { stdout, stderr } = await promisify(execFile)(process.execPath, args, { env }).catch(
      (error: { stdout: string; stderr: string }) => error,
    );
    const { testResults } = JSON.parse(await readFile(report, 'utf8')) as Report;
    const tests = testResults.flatMap(({ assertionResults }) => assertionResults);
    const failed = tests.filter(({ status }) => status === 'failed').map(({ fullName }) => fullName);
    expect(failed, `${stdout}${stderr}`).toEqual([]);
    expect(tests.filter(({ status }) => status === 'passed').length).toBeGreaterThan(100);
    expect(testResults).toHaveLength(AGAIN.length);
  },
  240_000,
);

interface Report {
  testResults: { assertionResults: { status: string; fullName: string }[] }[];
}
