import { createRequire } from 'node:module';
import { cpus, loadavg, release, totalmem } from 'node:os';

/** On what a benchmark ran. */
export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGiB: number;
  readonly kernel: string;
  readonly node: string;
  readonly postgres: string;
  readonly versions: Readonly<Record<string, string>>;
  readonly began: string;
  /** Load averages over a minute, before and after. */
  readonly load: readonly number[];
}

const PACKAGES = ['@prisma/client', 'pg', '@aws-sdk/client-sqs', 'fauxqs'];
const PEERS = ['pg-boss', 'graphile-worker', 'pg-transactional-outbox'];

/** The machine, the versions and how busy it is now. */
export function machineOf(postgres: string): Machine {
  return {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
    node: process.version,
    postgres,
    versions: Object.fromEntries(
      [...PACKAGES, ...PEERS].flatMap((name) => {
        const version = versionOf(name);
        return version === undefined ? [] : [[name, version]];
      }),
    ),
    began: new Date().toISOString(),
    load: [loadNow()],
  };
}

/** Processes that ran or waited to run, over the last minute. */
export const loadNow = (): number => Number((loadavg()[0] ?? 0).toFixed(2));

/** In one line. */
export function machineText({
  cpu,
  cores,
  memoryGiB,
  node,
  postgres,
  versions,
  load,
  began,
}: Machine): string {
  const packages = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  return [
    `${began.slice(0, 16).replace('T', ' ')} UTC`,
    `${cores} cores (${cpu})`,
    `${memoryGiB} GiB`,
    `Node ${node}`,
    `PostgreSQL ${postgres}`,
    ...packages,
    `load ${load.join(' → ')}`,
  ].join(' · ');
}

function versionOf(name: string): string | undefined {
  const require = createRequire(new URL('../package.json', import.meta.url));
  for (const place of require.resolve.paths(name) ?? []) {
    try {
      return (require(`${place}/${name}/package.json`) as { version: string }).version;
    } catch {
      continue;
    }
  }
  return undefined;
}
