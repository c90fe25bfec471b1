import path from 'node:path';
import { expect, test } from 'vitest';
import { bundledPackages, refused } from '../infra/sbom.ts';
import packageJson from '../package.json' with { type: 'json' };
import { packaged, PACKAGING_TIMEOUT_MS } from './support/packaged.ts';

const shipped = (licence: string) => ({ name: 'toy', version: '1.0.0', licence });

test.each(['MIT', 'Apache-2.0', '(MIT OR GPL-3.0-only)', 'MIT AND ISC'])('%s may be shipped', (licence) => {
  expect(refused([shipped(licence)])).toEqual([]);
});

test.each(['GPL-3.0-only', 'MIT AND SSPL-1.0', 'UNLICENSED', 'none stated'])('%s may not', (licence) => {
  expect(refused([shipped(licence)])).toHaveLength(1);
});

test(
  'every package in the zips is known by name, version and a licence that we may ship',
  async () => {
    const { directory } = await packaged();
    const packages = await bundledPackages(path.join(directory, 'dist'));
    expect(packages).toContainEqual({ name: 'pg', version: packageJson.dependencies.pg, licence: 'MIT' });
    expect(packages.length).toBeGreaterThan(20);
    expect(refused(packages)).toEqual([]);
  },
  PACKAGING_TIMEOUT_MS,
);
