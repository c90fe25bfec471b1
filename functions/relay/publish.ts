import type { TimeLeft } from '../shared/deadline.ts';
import { linkedSpan } from '../shared/trace.ts';
import { cutBatches } from './batch.ts';
import type { Claim, ClaimedEvent } from './claim.ts';
import type { Settlement } from './outcome.ts';
import type { RelayParts } from './parts.ts';
import { send, type Message, type Sender } from './sender.ts';

/** A call is not begun with less time than this before it would be given up. */
const SHORTEST_CALL_MS = 250;
/** Of the lease, kept for settling what was sent. */
const SETTLE_MARGIN_MS = 1_000;

type Entry = Message<unknown> & { readonly event: ClaimedEvent };

/**
 * Sends claimed events to their destinations, several calls at once, and says what became of each.
 * Destinations do not wait for each other. One through which nothing gets goes into `down` (with the reason) and is
 * not called again in this run.
 *
 * @param timeLeft of the run; no call outlives it, the lease, or the call timeout
 * @returns one settlement for each event
 */
export async function publish(
  relay: RelayParts,
  claim: Claim,
  events: readonly ClaimedEvent[],
  down: Map<string, string>,
  timeLeft: TimeLeft,
): Promise<Settlement[]> {
  const settlements = await Promise.all(
    [...Map.groupBy(events, (event) => event.destination)].map(async ([name, group]) => {
      const sender = relay.senders.get(name);
      if (!sender) return unavailable(group, `UnknownDestination: ${name} is not configured`);
      const trouble = down.get(name);
      if (trouble !== undefined) return unavailable(group, trouble);
      const entries = group.map((event): Entry => ({ event, ...sender.write(event) }));
      const { batches, tooLarge } = cutBatches(entries, sender);
      const sent = await Promise.all(
        batches.map((batch) => call(relay, { name, sender }, claim, batch, timeLeft)),
      );
      return [...tooLarge.map((entry) => refuse(entry, sender.maxBytes)), ...judge(name, sent.flat(), down)];
    }),
  );
  return settlements.flat();
}

/** One call, when its turn comes, if there is still time for it. */
function call(
  relay: RelayParts,
  { name, sender }: { readonly name: string; readonly sender: Sender },
  claim: Claim,
  batch: readonly Entry[],
  timeLeft: TimeLeft,
): Promise<Settlement[]> {
  return relay.calls(async () => {
    const callMs = Math.min(
      relay.config.callTimeoutSeconds * 1000,
      timeLeft(),
      claim.leaseLeft() - SETTLE_MARGIN_MS,
    );
    if (callMs < SHORTEST_CALL_MS) return batch.map(({ event }) => ({ event, outcome: { kind: 'unsent' } }));
    const messages = batch.map(({ message }) => message);
    const traces = batch.map(({ event }) => event.traceParent);
    const outcomes = await linkedSpan(`publish ${name}`, 'producer', traces, () =>
      send(sender, messages, AbortSignal.timeout(Math.floor(callMs))),
    );
    return batch.map(({ event }, index) => ({ event, outcome: outcomes[index] ?? { kind: 'unsent' } }));
  });
}

const refuse = ({ event, bytes }: Entry, maxBytes: number): Settlement => ({
  event,
  outcome: {
    kind: 'refused',
    reason: `TooLarge: the message has ${bytes} bytes, the destination takes ${maxBytes}`,
  },
});

const unavailable = (events: readonly ClaimedEvent[], reason: string): Settlement[] =>
  events.map((event) => ({ event, outcome: { kind: 'unavailable', reason, whole: true } }));

/**
 * Tells an outage from a bad event: when nothing at all got through to a destination, the failures say nothing of the
 * events, so the attempts are given back; and when more than one event was tried, the destination is down.
 */
function judge(name: string, settled: Settlement[], down: Map<string, string>): Settlement[] {
  const tried = settled.map(({ outcome }) => outcome).filter(({ kind }) => kind !== 'unsent');
  const reached = tried.some(({ kind }) => kind === 'published' || kind === 'refused');
  const [first] = tried.flatMap((outcome) => ('reason' in outcome ? [outcome.reason] : []));
  if (reached || first === undefined) return settled;
  // One event is enough when the call as a whole failed for no fault of its content.
  const whole = tried.some((outcome) => outcome.kind === 'unavailable' && outcome.whole);
  if (tried.length > 1 || whole) down.set(name, first);
  return settled.map(({ event, outcome }) => ({
    event,
    outcome: outcome.kind === 'unavailable' ? { ...outcome, whole: true } : outcome,
  }));
}
