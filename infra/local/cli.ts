// What both commands do around their work: signals, errors and exit codes.

import { UsageError } from './errors.ts';

/** The exit code of a process that SIGINT ended. */
const INTERRUPTED = 130;

/**
 * Runs a command and sets the exit code from what it returns, 1 when it throws. The first Ctrl-C (or SIGTERM,
 * SIGHUP) aborts `signal` and leaves the command to end in order; the second ends the process at once.
 */
export async function runCommand(command: (signal: AbortSignal) => Promise<number>): Promise<void> {
  const stopping = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.on(name, () => {
      if (stopping.signal.aborted) process.exit(INTERRUPTED);
      stopping.abort(new UsageError('interrupted'));
    });
  try {
    process.exitCode = await command(stopping.signal);
  } catch (error) {
    // What an interrupted step says about it is no news; what its clean-up says is.
    const isNews = !stopping.signal.aborted || error instanceof SuppressedError;
    process.stderr.write(`${isNews ? describe(error) : 'Interrupted.'}\n`);
    process.exitCode = stopping.signal.aborted ? INTERRUPTED : 1;
  }
}

/** Node's own errors about options have a code and a message that says it all. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const isUsage =
    error instanceof UsageError || ('code' in error && String(error.code).startsWith('ERR_PARSE_ARGS'));
  return isUsage ? error.message : (error.stack ?? error.message);
}

/** Rejects with the signal's reason when it is aborted. */
export function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    const rejectNow = () => reject(signal.reason as Error);
    if (signal.aborted) rejectNow();
    else signal.addEventListener('abort', rejectNow, { once: true });
  });
}

/** Reads an option's whole number. Throws UsageError naming the option, the range and what was given. */
export function wholeNumber(option: string, text: string, least: number, most: number): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isInteger(value) || value < least || value > most)
    throw new UsageError(
      `${option}: expected a whole number from ${least} to ${most}, got ${JSON.stringify(text)}`,
    );
  return value;
}
