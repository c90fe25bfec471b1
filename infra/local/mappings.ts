// The template's event source mappings, read into what event-source.ts runs.

import type { EventSourceMapping } from './event-source.ts';
import type { LocalFunction } from './function.ts';
import { isFifo, type LocalQueue } from './queue.ts';
import { resolve, resourcesOf, type Attributes, type Template } from './template.ts';

/** What Lambda does when the template says nothing, except that its pollers would scale further. */
const DEFAULTS = { batchSize: 10, windowSeconds: 0, maximumConcurrency: 5 };

/**
 * Every enabled mapping. Throws when one's queue or function is not in the template, when it filters (the local stack
 * would deliver what Lambda would not), or when it asks of a FIFO queue what Lambda refuses.
 */
export function mappingsOf(
  template: Template,
  known: Record<string, Attributes>,
  queues: Record<string, LocalQueue>,
  functions: Record<string, LocalFunction>,
): EventSourceMapping[] {
  return resourcesOf(template, 'AWS::Lambda::EventSourceMapping').flatMap(({ id, properties }) => {
    if (properties['Enabled'] === false) return [];
    if (properties['FilterCriteria']) throw new Error(`${id}: the local stack knows no FilterCriteria.`);
    const values = resolve(properties, known) as Record<string, unknown>;
    const queue = Object.values(queues).find(({ arn }) => arn === values['EventSourceArn']);
    const called = functionOf(String(values['FunctionName']), functions);
    if (!queue || !called) throw new Error(`${id}: its queue or its function is not in the template.`);
    const reason = isFifo(queue) ? refusedForFifo(values) : undefined;
    if (reason !== undefined) throw new Error(`${id}: ${reason}, as Lambda would refuse it.`);
    const types = (values['FunctionResponseTypes'] ?? []) as string[];
    const scaling = (values['ScalingConfig'] ?? {}) as { MaximumConcurrency?: number };
    return [
      {
        queue,
        function: called,
        batchSize: Number(values['BatchSize'] ?? DEFAULTS.batchSize),
        windowSeconds: Number(values['MaximumBatchingWindowInSeconds'] ?? DEFAULTS.windowSeconds),
        partialResponses: types.includes('ReportBatchItemFailures'),
        maximumConcurrency: scaling.MaximumConcurrency ?? DEFAULTS.maximumConcurrency,
      },
    ];
  });
}

/** A FIFO queue is polled without a window, and ten messages at a time. */
function refusedForFifo({
  BatchSize = DEFAULTS.batchSize,
  MaximumBatchingWindowInSeconds = DEFAULTS.windowSeconds,
}: Record<string, unknown>): string | undefined {
  if (Number(MaximumBatchingWindowInSeconds) > 0) return 'a FIFO queue allows no batching window';
  return Number(BatchSize) > 10 ? 'a FIFO queue allows batches of at most 10' : undefined;
}

/** A mapping names its function by ARN or by name. */
function functionOf(name: string, functions: Record<string, LocalFunction>): LocalFunction | undefined {
  return functions[name] ?? Object.values(functions).find(({ arn }) => arn.endsWith(`:${name}`));
}
