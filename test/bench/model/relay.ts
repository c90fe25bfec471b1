// One relay in virtual time: claims, calls and acknowledges, with what each of them costs.

import { Clock, Processor } from './clock.ts';

/** What things cost and how far they are. */
export interface RelayModel {
  /** Cores of the relay's sandbox: 1 at 1,769 MB of Lambda memory. */
  readonly cores: number;
  /** CPU milliseconds of a call to a queue, whatever is in it, and for each event in it. */
  readonly callMs: number;
  readonly callEventMs: number;
  /** CPU milliseconds of claiming and acknowledging, for each claim and each event. */
  readonly claimMs: number;
  readonly claimEventMs: number;
  /** Milliseconds that PostgreSQL takes for claiming or acknowledging an event. */
  readonly statementEventMs: number;
  /** Milliseconds of a round trip, and of a commit. */
  readonly databaseMs: number;
  readonly commitMs: number;
  /** Milliseconds that a call waits for its answer. */
  readonly queueMs: number;
  readonly callsInFlight: number;
  readonly claimLimit: number;
  readonly claimsUnderway: number;
  /** Milliseconds from a commit until the relay that it wakes begins: nudge, tick queue, invocation. */
  readonly wakeMs: number;
}

/** What a simulation shows. */
export interface Simulated {
  readonly eventsPerSecond: number;
  /** Milliseconds from commit to published, one for each event. */
  readonly waits: number[];
  /** Share of the sandbox's processor in use. */
  readonly busy: number;
}

const ENTRIES = 10;

/** Lets events arrive at these times (milliseconds) and a relay drain them. */
export function simulate(model: RelayModel, arrivals: readonly number[]): Simulated {
  const clock = new Clock();
  const cpu = new Processor(clock, model.cores);
  const pending: number[] = [];
  const waits: number[] = [];
  const queued: (() => void)[] = [];
  let slots = model.callsInFlight;
  let underway = 0;
  let claiming = false;
  let waking = false;
  const statementMs = (events: number) => model.databaseMs + model.commitMs + events * model.statementEventMs;

  const claim = (): void => {
    if (claiming || underway >= model.claimsUnderway || pending.length === 0) return;
    claiming = true;
    const events = pending.splice(0, model.claimLimit);
    clock.after(statementMs(events.length), () =>
      cpu.use(model.claimMs + events.length * model.claimEventMs, () => {
        claiming = false;
        underway += 1;
        publish(events);
        claim();
      }),
    );
  };
  const publish = (events: readonly number[]): void => {
    let open = Math.ceil(events.length / ENTRIES);
    for (let from = 0; from < events.length; from += ENTRIES) {
      const batch = events.slice(from, from + ENTRIES);
      const call = () =>
        cpu.use(model.callMs + batch.length * model.callEventMs, () =>
          clock.after(model.queueMs, () => {
            waits.push(...batch.map((arrived) => clock.now - arrived));
            slots += 1;
            start();
            open -= 1;
            if (open === 0) acknowledge(events.length);
          }),
        );
      queued.push(call);
    }
    start();
  };
  const start = (): void => {
    while (slots > 0 && queued.length > 0) {
      slots -= 1;
      queued.shift()?.();
    }
  };
  const acknowledge = (events: number): void =>
    clock.after(statementMs(events), () => {
      underway -= 1;
      claim();
    });
  const arrive = (index: number): void => {
    const next = arrivals[index];
    if (next === undefined) return;
    clock.after(next - clock.now, () => {
      pending.push(clock.now);
      if (!waking) {
        waking = true;
        clock.after(model.wakeMs, () => {
          waking = false;
          claim();
        });
      }
      arrive(index + 1);
    });
  };
  arrive(0);
  clock.run(Infinity);
  return { eventsPerSecond: (waits.length / clock.now) * 1000, waits, busy: cpu.busyMs / clock.now };
}

/** A backlog: everything is there at once. */
export const backlog = (events: number): number[] => Array.from({ length: events }, () => 0);

/** So many events a second at random times (exponential gaps), the same ones every time. */
export function steady(perSecond: number, events: number): number[] {
  let seed = 1;
  let at = 0;
  return Array.from({ length: events }, () => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    at += (-Math.log((seed + 1) / 2 ** 32) * 1000) / perSecond;
    return at;
  });
}
