// What deploy.md, the workflows and the decision records say is what serverless.yml and infra/ do.

import { readdir, readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { ALLOWED_ON_EVERYTHING } from '../infra/template/policies.ts';
import { packaged } from './support/packaged.ts';
import { lookups } from './support/template.ts';

const { template, resources } = await packaged();
const { propertiesOf, named } = lookups(resources);

const read = (file: string) => readFile(file, 'utf8');
const guide = await read('docs/deploy.md');
const service = await read('serverless.yml');
const infra = await Promise.all(
  (await readdir('infra', { recursive: true }))
    .filter((file) => file.endsWith('.yml'))
    .map((file) => read(`infra/${file}`)),
);
const workflows = await Promise.all(['check', 'deploy'].map((name) => read(`.github/workflows/${name}.yml`)));
const yaml = [service, ...infra].join('\n');
const params = new Set([...yaml.matchAll(/param:(\w+)/g)].map(([, name = '']) => name));

test('every param that a document or a workflow gives exists', async () => {
  const operations = await read('docs/operations.md');
  const given = [guide, operations, await read('README.md'), ...workflows].flatMap((text) =>
    [...text.matchAll(/--param="?(?!name=value)(\w+)=/g)].map(([, name = '']) => name),
  );
  expect(given.length).toBeGreaterThan(10);
  expect(given.filter((name) => !params.has(name))).toEqual([]);
});

test('every param has its place in the guide or its comment in serverless.yml', () => {
  const [, block = ''] = service.split('\nparams:\n');
  const [declared = ''] = block.split('\ncustom:\n');
  const silent = [...params].filter((name) => !guide.includes(name) && !declared.includes(`${name}:`));
  expect(silent).toEqual([]);
});

const row = (name: string): string[] =>
  guide
    .split('\n')
    .find((line) => line.startsWith(`| ${name} `))
    ?.split('|')
    .map((cell) => cell.trim()) ?? [];

test('the stages are as its table says', () => {
  expect(row('gauge and alarms')[2]).toContain(`${named('AWS::CloudWatch::Alarm').length} alarms`);
  expect(row('logs')[2]).toBe(`${String(propertiesOf('RelayLogGroup')['RetentionInDays'])} days`);
  expect(row('logs')[3]).toBe(`${/ dev:[^]*?logRetentionDays: (\d+)/.exec(service)?.[1]} days`);
  expect(template.Resources['TickSchedule']?.Properties?.['ScheduleExpression']).toBe('rate(1 minute)');
});

test('whatever is allowed on everything stands in the decision record, action by action', async () => {
  const record = await read('docs/decisions/0021-wildcards-in-policies.md');
  const vpc = await read('infra/vpc.yml');
  const actions = [...vpc.matchAll(/- ec2:(\w+)/g)].map(([, action = '']) => action);
  expect(actions).toHaveLength(6);
  for (const action of actions) expect(record).toContain(`\`${action}\``);
  for (const sid of Object.keys(ALLOWED_ON_EVERYTHING)) expect(record).toContain(`\`${sid}\``);
});

test('workflows may do little, and use what has a version', () => {
  for (const workflow of workflows) {
    expect(workflow).toMatch(/^permissions: \{( contents: read )?\}$/m);
    const used = [...workflow.matchAll(/uses: (\S+)/g)].map(([, action = '']) => action);
    expect(used.length).toBeGreaterThan(0);
    for (const action of used) expect(action).toMatch(/^(actions|aws-actions)\/[\w-]+@v\d+$/);
    expect(workflow).not.toMatch(/secrets\.|AWS_ACCESS_KEY/);
    // What a person typed in is never part of a script's text.
    for (const [, script = ''] of workflow.matchAll(/run: (.*)/g)) expect(script).not.toContain('${{');
  }
});
