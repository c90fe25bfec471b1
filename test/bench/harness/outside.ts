// What is not ours and far away: the SQS emulator and the network, in a process of their own.

import { randomUUID } from 'node:crypto';
import { CreateQueueCommand, DeleteQueueCommand, SQSClient } from '@aws-sdk/client-sqs';
import { startProcess } from '../../support/process.ts';
import { cpuOf } from './cpu.ts';

/** How far away the database and the queues are. */
export interface Distance {
  /** Milliseconds added to each database round trip; Node's timers add up to one more. */
  readonly databaseMs: number;
  /** Milliseconds added to each commit (`commit_delay`), as storage over a network takes. */
  readonly commitMs: number;
  /** Milliseconds added to each call to a queue. */
  readonly queueMs: number;
}

/** Everything on this machine. */
export const LOCAL: Distance = { databaseMs: 0, commitMs: 0, queueMs: 0 };
/** As in one region of AWS: a managed database and SQS. */
export const AWS: Distance = { databaseMs: 1, commitMs: 2, queueMs: 10 };

/** The emulator's process. */
export interface Outside {
  /** The endpoint, as far away as asked. */
  endpoint(delayMs: number): Promise<string>;
  /** The same database, through a slow network. */
  databaseUrl(url: string, delayMs: number): Promise<string>;
  createQueue(): Promise<{ queueUrl: string; remove(): Promise<void> }>;
  cpuMs(): number;
}

/** What region and credentials every client of the emulator has: in the environment, as Lambda has them. */
export const AWS_ENVIRONMENT: Readonly<Record<string, string>> = {
  AWS_REGION: 'us-east-1',
  AWS_ACCESS_KEY_ID: 'local',
  AWS_SECRET_ACCESS_KEY: 'local',
};

/** Starts the emulator in its own process; it ends with the scope. */
export async function startOutside(): Promise<Outside> {
  const child = startProcess(new URL('../programs/outside.ts', import.meta.url));
  const ask = async (request: object): Promise<string> => {
    const id = randomUUID();
    child.send({ ...request, id });
    const is = (message: unknown): message is { id: string; value: string } =>
      (message as { id?: string }).id === id;
    return (await child.message(is, 30_000)).value;
  };
  const endpoint = await ask({ kind: 'endpoint' });
  const credentials = { accessKeyId: 'local', secretAccessKey: 'local' };
  const sqs = new SQSClient({ endpoint, region: 'us-east-1', credentials });
  const proxy = (url: string, delayMs: number) =>
    delayMs === 0 ? Promise.resolve(url) : ask({ kind: 'proxy', url, delayMs });
  const slow = new Map<number, Promise<string>>();
  return {
    cpuMs: () => cpuOf(child.pid),
    endpoint: (delayMs) => {
      const known = slow.get(delayMs) ?? proxy(endpoint, delayMs);
      slow.set(delayMs, known);
      return known;
    },
    databaseUrl: proxy,
    createQueue: async () => {
      const { QueueUrl: queueUrl = '' } = await sqs.send(
        new CreateQueueCommand({ QueueName: `bench-${randomUUID()}` }),
      );
      return {
        queueUrl,
        remove: async () => void (await sqs.send(new DeleteQueueCommand({ QueueUrl: queueUrl }))),
      };
    },
  };
}
