import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** What is still referred to in this process's heap, in MB. */
export function liveHeapMb(): number {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  return process.memoryUsage().heapUsed / 2 ** 20;
}
