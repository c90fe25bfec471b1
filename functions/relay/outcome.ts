import type { ClaimedEvent } from './claim.ts';

/**
 * What became of one event of a claim:
 * - `published`: the queue took it → acknowledge
 * - `refused`: the event itself is at fault → park
 * - `unavailable`: not now, whoever is at fault → release with back-off; when nothing of the call got through (`whole`)
 *   the attempt is given back, since an outage is not poison
 * - `unanswered`: sent, and nothing came back in time → leave it to its lease: it may have been stored, and if it keeps
 *   happening the attempts run out
 * - `exhausted`: claimed once too often → park unsent
 * - `deferred`: a suspect whose destination left one without an answer in this run → release with back-off, attempt given back
 * - `unsent`: not tried (time or lease nearly over, or a suspect waiting its turn) → release at once, attempt given back
 */
export type Outcome =
  | { readonly kind: 'published'; readonly messageId: string }
  | { readonly kind: 'refused'; readonly reason: string }
  | { readonly kind: 'unavailable'; readonly reason: string; readonly whole: boolean }
  | { readonly kind: 'unanswered'; readonly reason: string }
  | { readonly kind: 'exhausted' }
  | { readonly kind: 'deferred' }
  | { readonly kind: 'unsent' };

/** An event and what became of it. */
export interface Settlement {
  readonly event: ClaimedEvent;
  readonly outcome: Outcome;
}
