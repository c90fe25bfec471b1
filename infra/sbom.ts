// `npm run sbom`: what ships, as CycloneDX in dist/sbom.json, and whether every licence in it is one that we may ship.

import { execFile } from 'node:child_process';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';

const root = path.resolve(import.meta.dirname, '..');
const dist = path.join(root, 'dist');

/** Permissive: nothing is asked but to keep the notice. A new one is added here by a person who has read it. */
const ALLOWED = new Set([
  'MIT',
  'MIT-0',
  'Apache-2.0',
  'ISC',
  'BSD-2-Clause',
  'BSD-3-Clause',
  '0BSD',
  'BlueOak-1.0.0',
  'Unlicense',
]);

/** A package of the production tree, or of a zip. */
export interface Shipped {
  name: string;
  version: string;
  licence: string;
}

/** Packages whose licence is not allowed; an expression such as `(MIT OR GPL-2.0)` needs one that is. */
export const refused = (packages: readonly Shipped[]): Shipped[] =>
  packages.filter(({ licence }) => !licence.replace(/[()]/g, '').split(/ OR /).some(isAllowed));

const isAllowed = (terms: string) => terms.split(/ AND /).every((term) => ALLOWED.has(term.trim()));

/** The packages that esbuild put into the zips, by its own account in `dist/*.meta.json`. */
export async function bundledPackages(folder: string): Promise<Shipped[]> {
  const folders = new Set<string>();
  for (const file of (await readdir(folder)).filter((name) => name.endsWith('.meta.json'))) {
    const { inputs } = JSON.parse(await readFile(path.join(folder, file), 'utf8')) as { inputs: object };
    for (const input of Object.keys(inputs)) {
      // Before it may stand a plugin's name, or the way out of the folder that the functions were built in.
      const found = /node_modules\/(?:.*\/node_modules\/)?(?:@[^/]+\/)?[^/]+(?=\/)/.exec(input)?.[0];
      if (found !== undefined) folders.add(path.resolve(root, found));
    }
  }
  const packages = await Promise.all([...folders].map(manifestOf));
  return packages.toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

async function manifestOf(folder: string): Promise<Shipped> {
  const manifest = JSON.parse(await readFile(path.join(folder, 'package.json'), 'utf8')) as Record<
    string,
    unknown
  >;
  const { name, version, license } = manifest;
  return { name: String(name), version: String(version), licence: String(license ?? 'none stated') };
}

interface Component {
  'bom-ref': string;
  name: string;
  group?: string;
  version: string;
  licenses?: { license?: { id?: string; name?: string }; expression?: string }[];
}

interface Sbom {
  components: Component[];
  dependencies: { ref: string; dependsOn: string[] }[];
}

/**
 * The production tree as npm writes it. npm's own `--omit dev` leaves out whatever a direct dependency brings (11.19), so
 * the whole tree is asked for, and the lock file says what only builds or tests.
 */
async function productionSbom(): Promise<Sbom> {
  const { stdout } = await promisify(execFile)('npm', ['sbom', '--sbom-format', 'cyclonedx'], {
    cwd: root,
    maxBuffer: 64 * 1024 * 1024,
  });
  const lock = await readFile(path.join(root, 'package-lock.json'), 'utf8');
  const { packages } = JSON.parse(lock) as {
    packages: Record<string, { version?: string; dev?: boolean; devOptional?: boolean; optional?: boolean }>;
  };
  const shipping = Object.entries(packages)
    .filter(([, { dev, devOptional, optional }]) => !dev && !devOptional && !optional)
    .map(([place, { version }]) => `${place.replace(/^.*node_modules\//, '')} ${version}`);
  const names = new Set(shipping);
  const sbom = JSON.parse(stdout) as Sbom;
  const ships = (component: Component) => {
    const { name, version } = shippedOf(component);
    return names.has(`${name} ${version}`);
  };
  const components = sbom.components.filter(ships);
  const refs = new Set(components.map((component) => component['bom-ref']));
  const dependencies = sbom.dependencies
    .filter(({ ref }) => refs.has(ref))
    .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((each) => refs.has(each)) }));
  return { ...sbom, components, dependencies };
}

const shippedOf = ({ group, name, version, licenses = [] }: Component): Shipped => ({
  name: group === undefined ? name : `${group}/${name}`,
  version,
  licence:
    licenses.map(({ license, expression }) => expression ?? license?.id ?? license?.name).join(' AND ') ||
    'none stated',
});

if (import.meta.main) {
  const sbom = await productionSbom();
  const packages = sbom.components.map(shippedOf);
  const bundled = await bundledPackages(dist);
  await mkdir(dist, { recursive: true });
  await writeFile(path.join(dist, 'sbom.json'), JSON.stringify(sbom, undefined, 1));
  const line = ({ name, version, licence }: Shipped) => `${name} ${version} ${licence}`;
  process.stdout.write(`In the zips:\n${bundled.map((each) => `  ${line(each)}\n`).join('')}`);
  process.stdout.write(`dist/sbom.json: ${packages.length} packages of the production tree\n`);
  const bad = refused([...packages, ...bundled]);
  if (bad.length > 0) {
    process.stderr.write(
      `Licences that infra/sbom.ts does not allow:\n${bad.map((each) => `  ${line(each)}\n`).join('')}`,
    );
    process.exitCode = 1;
  }
}
