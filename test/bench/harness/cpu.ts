// CPU time of processes, from /proc: on a shared machine it moves far less than elapsed time does.

import { readdirSync, readFileSync } from 'node:fs';

/** Milliseconds of a clock tick in /proc; Linux has 100 of them a second everywhere. */
const TICK_MS = 10;

interface Stat {
  readonly parent: number;
  /** Of the process itself, and of its children that have ended and been waited for. */
  readonly own: number;
  readonly reaped: number;
}

function statOf(pid: number): Stat | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name may hold anything; what follows its closing bracket is numbers.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    const number = (index: number) => Number(fields[index] ?? 0);
    return {
      parent: number(1),
      own: (number(11) + number(12)) * TICK_MS,
      reaped: (number(13) + number(14)) * TICK_MS,
    };
  } catch {
    return undefined;
  }
}

/** Milliseconds of CPU that a process has used; 0 where there is no /proc. */
export const cpuOf = (pid: number): number => statOf(pid)?.own ?? 0;

/** Milliseconds of CPU of a server that forks a process for each connection: its own, its children's, the ended ones'. */
export function cpuOfTree(pid: number): number {
  const root = statOf(pid);
  if (!root) return 0;
  let sum = root.own + root.reaped;
  for (const name of readdirSync('/proc')) {
    const child = /^\d+$/.test(name) ? statOf(Number(name)) : undefined;
    if (child?.parent === pid) sum += child.own + child.reaped;
  }
  return sum;
}
