// Draws the program of a seed.

import { diceOf, type Dice } from './dice.ts';
import {
  FIFO,
  STANDARD,
  type Blow,
  type Disaster,
  type Errand,
  type PlannedAnswer,
  type PlannedEvent,
  type PlannedTransaction,
  type Program,
  type Settings,
  type Trap,
} from './program.ts';

/** The program of a seed. */
export function programOf(seed: number): Program {
  const dice = diceOf(seed);
  const calm = dice.chance(0.08);
  const settings = settingsBy(dice.apart('settings'), calm);
  const end = dice.apart('end');
  return {
    seed,
    calm,
    settings,
    producers: producersBy(dice.apart('producers')),
    traps: calm ? [] : trapsBy(dice.apart('traps'), settings),
    blows: calm ? [] : blowsBy(dice.apart('blows'), settings),
    disasters: calm ? [] : disastersBy(dice.apart('disasters')),
    answers: calm ? [] : answersBy(dice.apart('answers'), settings.relays),
    deliveries: deliveriesBy(dice.apart('deliveries'), calm),
    burials: calm ? [] : end.times(4, () => end.weighed({ ok: 2, error503: 1, storeThenReset: 1 })),
    errands: errandsBy(dice.apart('errands'), settings),
    replaysInTheEnd: settings.parkedHead === 'hold' && end.chance(0.6),
  };
}

function settingsBy(dice: Dice, calm: boolean): Settings {
  return {
    relays: dice.whole(2, 3),
    consumers: 2,
    // A call is only made while the lease has 1.25 s left. Without faults nothing may ever run out, however busy the
    // machine is.
    leaseSeconds: calm ? 900 : 1.6 + dice.next() * 0.6,
    callTimeoutSeconds: calm ? 600 : 0.3 + dice.next() * 0.3,
    claimLimit: dice.pick([2, 5, 20, 100]),
    claimsUnderway: dice.whole(1, 4),
    maxAttempts: dice.whole(2, 8),
    keepPublished: dice.chance(0.8),
    parkedHead: dice.chance(0.8) ? 'hold' : 'skip',
    transactionPer: dice.chance(0.5) ? 'record' : 'batch',
    tickPauseMs: dice.whole(40, 250),
  };
}

function producersBy(dice: Dice): PlannedTransaction[][] {
  const keys = dice.times(dice.whole(1, 4), (n) => `key-${n}`) as [string, ...string[]];
  let number = 0;
  return dice.times(dice.whole(2, 3), () =>
    dice.times(dice.whole(2, 7), () => ({
      number: number++,
      pauseMs: dice.whole(0, 80),
      openMs: dice.chance(0.2) ? dice.whole(1, 150) : 0,
      rollsBack: dice.chance(0.2),
      events: dice.times(dice.whole(1, 4), () => eventBy(dice, keys)),
    })),
  );
}

const eventBy = (dice: Dice, keys: readonly [string, ...string[]]): PlannedEvent => ({
  id: dice.uuid(),
  orderingKey: dice.chance(0.55) ? dice.pick(keys) : null,
  destinations: dice.pick([[STANDARD], [FIFO], [FIFO], [STANDARD, FIFO]]),
  delaySeconds: dice.chance(0.12) ? dice.next() * 0.6 : 0,
  trait: dice.weighed({ plain: 88, poison: 5, clumsy: 7 }),
});

const STRIKES = { kill: 6, freeze: 3, cut: 8, terminate: 5, outage: 1, slow: 5 };

const RELAY_STATEMENTS = ['claim', 'claimHeads', 'acknowledge', 'acknowledge', 'release', 'park'] as const;
const CONSUMER_STATEMENTS = ['begin', 'ledger', 'effect', 'prove', 'commit', 'commit'] as const;
const PRODUCER_STATEMENTS = ['record', 'commit', 'commit'] as const;

function trapsBy(dice: Dice, { relays, consumers }: Settings): Trap[] {
  return dice.times(dice.whole(1, 6), (): Trap => {
    const side = dice.pick(['before', 'after'] as const);
    const trap = { nth: dice.whole(1, 5), side, strike: dice.weighed(STRIKES) };
    switch (dice.weighed({ relay: 5, consumer: 5, producer: 2 })) {
      case 'relay': {
        const statement = dice.pick(RELAY_STATEMENTS);
        return { ...trap, actor: `relay-${dice.whole(0, relays - 1)}`, statement };
      }
      case 'consumer': {
        const statement = dice.pick(CONSUMER_STATEMENTS);
        const name = dice.pick([STANDARD, FIFO]);
        return { ...trap, actor: `${name}-${dice.whole(0, consumers - 1)}`, statement };
      }
      case 'producer': {
        // The producer is this process, which nobody kills.
        const strike = dice.pick(['cut', 'terminate', 'slow'] as const);
        return { ...trap, strike, actor: 'producer', statement: dice.pick(PRODUCER_STATEMENTS) };
      }
    }
  });
}

const blowsBy = (dice: Dice, { relays, consumers }: Settings): Blow[] =>
  dice.times(dice.whole(0, 2), () => ({
    afterMs: dice.whole(100, 1_500),
    strike: dice.pick(['kill', 'freeze', 'cut']),
    actor: dice.chance(0.5)
      ? `relay-${dice.whole(0, relays - 1)}`
      : `${dice.pick([STANDARD, FIFO])}-${dice.whole(0, consumers - 1)}`,
  }));

/** Few: histories with a server of their own run one after another. */
const disastersBy = (dice: Dice): Disaster[] =>
  dice.times(dice.chance(0.07) ? dice.whole(1, 2) : 0, () => ({
    afterMs: dice.whole(200, 1_300),
    what: dice.pick(['restart', 'crash', 'crowd']),
  }));

const ANSWERS = {
  ok: 50,
  entries: 18,
  emptyAnswer: 1,
  error503: 4,
  throttled: 2,
  stall: 2,
  storeThenStall: 4,
  reset: 3,
  storeThenReset: 6,
  killBefore: 2,
  killAfter: 4,
  freezeAfter: 2,
};
const ENTRIES = { ok: 55, failed: 20, refused: 8, omitted: 6, storedButOmitted: 6, wrongMd5: 3 };

const answersBy = (dice: Dice, relays: number): PlannedAnswer[][] =>
  dice.times(relays, () =>
    dice.times(dice.whole(0, 10), () => ({
      kind: dice.weighed(ANSWERS),
      entries: dice.times(10, () => dice.weighed(ENTRIES)),
    })),
  );

function deliveriesBy(dice: Dice, calm: boolean): Program['deliveries'] {
  const some = () =>
    dice.times(calm ? 0 : 8, () => dice.weighed({ once: 65, again: 15, undeleted: 10, doubled: 10 }));
  return { [STANDARD]: some(), [FIFO]: some() };
}

/** Where parked heads are skipped nobody replays: a replayed event would come after those that passed it. */
function errandsBy(dice: Dice, { parkedHead }: Settings): Errand[] {
  const weights = { replay: parkedHead === 'hold' ? 2 : 0, redrive: 2, prune: 3 };
  return dice.times(dice.whole(1, 6), () => ({
    afterMs: dice.whole(50, 1_500),
    what: dice.weighed(weights),
  }));
}
