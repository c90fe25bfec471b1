// Zips and template, as they would be deployed.

import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { UsageError } from './errors.ts';

/** This project's root. */
export const PROJECT = join(import.meta.dirname, '..', '..');

/**
 * Runs `npm run package`, every zip and the template, for the stage `local`, which ticks as production does. Its
 * output is shown only when it fails. Rejects with the signal's reason when that is aborted.
 */
export async function packageService(signal: AbortSignal): Promise<void> {
  try {
    await promisify(execFile)('npm', ['run', '--silent', 'package', '--', '--stage=local'], {
      cwd: PROJECT,
      signal,
      shell: process.platform === 'win32',
    });
  } catch (error) {
    signal.throwIfAborted();
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    throw new UsageError(`npm run package failed:\n${stdout}${stderr}`, { cause: error });
  }
}
