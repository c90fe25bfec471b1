// The template's schedules: EventBridge Scheduler (queue messages or a function) and EventBridge rules (a function).

import {
  SendMessageBatchCommand,
  type SendMessageBatchCommandInput,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import type { LocalFunction } from './function.ts';
import { resolve, resourcesOf, type Attributes, type Properties, type Template } from './template.ts';

/** The running schedules. */
export interface Schedules {
  /** Nothing is triggered until `resume()`; messages already delayed in a queue still become due. */
  pause(): void;
  resume(): void;
  stop(): void;
}

/** One schedule of the template, ready to run. */
export interface Timetable {
  intervalMs: number;
  /** A new Scheduler schedule triggers at once, a new rule only after its first interval. */
  atOnce: boolean;
  actions: ((sqs: SQSClient) => Promise<unknown>)[];
}

interface Target {
  Arn: string;
  Input?: string;
}

const SEND_BATCH = 'aws-sdk:sqs:sendMessageBatch';
const UNIT_SECONDS: Record<string, number> = { minute: 60, hour: 3600, day: 86_400 };

/** Starts to trigger. What fails is reported to `onError` and not tried again, as the tick's schedule asks. */
export function startSchedules(
  sqs: SQSClient,
  timetables: Timetable[],
  options: { paused: boolean; onError: (error: unknown) => void },
): Schedules {
  let { paused } = options;
  const timers = timetables.map(({ intervalMs, atOnce, actions }) => {
    const trigger = () => {
      if (!paused) for (const action of actions) action(sqs).catch(options.onError);
    };
    if (atOnce) trigger();
    return setInterval(trigger, intervalMs);
  });
  return {
    pause: () => void (paused = true),
    resume: () => void (paused = false),
    stop: () => timers.forEach((timer) => clearInterval(timer)),
  };
}

/**
 * Every enabled schedule of the template; `functions` are found by their ARN. Throws on an expression other than
 * `rate(…)` and on a target that the local stack does not know.
 */
export function timetablesOf(
  template: Template,
  known: Record<string, Attributes>,
  functions: Record<string, LocalFunction>,
): Timetable[] {
  const timetable = (id: string, properties: Properties, targets: unknown[], atOnce: boolean) => {
    if (properties['State'] === 'DISABLED' || properties['ScheduleExpression'] === undefined) return [];
    const actions = targets.map((target) => actionOf(id, resolve(target, known) as Target, functions));
    return [{ intervalMs: intervalMs(id, String(properties['ScheduleExpression'])), atOnce, actions }];
  };
  return [
    ...resourcesOf(template, 'AWS::Scheduler::Schedule').flatMap(({ id, properties }) =>
      timetable(id, properties, [properties['Target']], true),
    ),
    ...resourcesOf(template, 'AWS::Events::Rule').flatMap(({ id, properties }) =>
      timetable(id, properties, (properties['Targets'] ?? []) as unknown[], false),
    ),
  ];
}

function intervalMs(id: string, expression: string): number {
  const [, count = '', unit = ''] = /^rate\((\d+) (minute|hour|day)s?\)$/.exec(expression) ?? [];
  const seconds = UNIT_SECONDS[unit];
  if (seconds === undefined) throw new Error(`${id}: the local stack knows no ${expression}, only rate(…).`);
  return Number(count) * seconds * 1000;
}

function actionOf(
  id: string,
  target: Target,
  functions: Record<string, LocalFunction>,
): (sqs: SQSClient) => Promise<unknown> {
  if (target.Arn.endsWith(SEND_BATCH)) {
    const input = JSON.parse(target.Input ?? '{}') as SendMessageBatchCommandInput;
    return (sqs) => sqs.send(new SendMessageBatchCommand(input));
  }
  const called = functions[target.Arn];
  if (!called) throw new Error(`${id}: the local stack knows no schedule target ${target.Arn}.`);
  const event: unknown = target.Input === undefined ? {} : JSON.parse(target.Input);
  return () => called.invoke(event);
}
