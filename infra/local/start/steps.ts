// Every step of every event, as the database has it.

import type { Pool } from 'pg';

/** A thing that happened to an event. */
export interface Step {
  at: Date;
  /** `recorded`, `published`, `released`, `parked` or `applied`. */
  step: string;
  eventId: string;
  detail: string;
}

/** Looks for new steps when it is told that there may be some. */
export interface StepReader {
  look(): void;
  /** Looks for the last time. */
  stop(): Promise<void>;
}

/** Things that happen together are asked for together. */
const TOGETHER_MS = 50;

/**
 * Steps later than $1. A transaction may commit a time that is older than the newest one seen, so each look goes back
 * a little, and what the last one found is remembered.
 */
const STEPS = `
  SELECT at, step, event_id AS "eventId", detail FROM (
    SELECT recorded_at AS at, 'recorded' AS step, event_id, type || ' → ' || destination AS detail FROM outbox_event
    UNION ALL
    SELECT published_at, 'published', event_id, 'to ' || destination || ', attempt ' || attempts
      FROM outbox_event WHERE published_at IS NOT NULL
    UNION ALL
    SELECT now(), 'released', event_id, 'of ' || destination || ', after attempt ' || attempts || ': ' || last_error
      FROM outbox_event WHERE state = 'PENDING' AND last_error IS NOT NULL AND claim_token IS NULL
    UNION ALL
    SELECT parked_at, 'parked', event_id, 'of ' || destination || ': ' || park_reason FROM outbox_event WHERE parked_at IS NOT NULL
    UNION ALL
    SELECT applied_at, 'applied', event_id, 'by ' || consumer FROM applied_event
  ) AS steps
  WHERE at > $1::timestamptz - interval '10 seconds' ORDER BY at`;

/** Calls `onStep` with each step from now on, once. */
export async function readSteps(pool: Pool, onStep: (step: Step) => void): Promise<StepReader> {
  const { rows } = await pool.query<{ now: Date }>('SELECT now()');
  const began = rows[0]?.now ?? new Date();
  let newest = began;
  let known = new Set<string>();
  let timer: NodeJS.Timeout | undefined;
  let looking = Promise.resolve();

  const readNew = async (before: Promise<void>) => {
    await before;
    const { rows: steps } = await pool.query<Step>(STEPS, [newest]);
    for (const step of steps) if (step.at > began && !known.has(keyOf(step))) onStep(step);
    known = new Set(steps.map(keyOf));
    newest = steps.at(-1)?.at ?? newest;
  };
  const lookNow = () => {
    timer = undefined;
    looking = readNew(looking);
  };
  return {
    look: () => {
      timer ??= setTimeout(lookNow, TOGETHER_MS);
    },
    stop: async () => {
      clearTimeout(timer);
      lookNow();
      await looking;
    },
  };
}

const keyOf = ({ step, eventId, detail }: Step) => `${step} ${eventId} ${detail}`;
