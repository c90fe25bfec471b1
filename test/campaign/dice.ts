// Chance that a seed decides: the same seed throws the same dice, on every machine.

/** A seeded source of chance. */
export interface Dice {
  /** A number in [0, 1). */
  next(): number;
  /** A whole number from `least` to `most`, both included. */
  whole(least: number, most: number): number;
  chance(probability: number): boolean;
  pick<T>(from: readonly [T, ...T[]]): T;
  /** One of the keys, each as likely as its weight says. */
  weighed<K extends string>(weights: Readonly<Record<K, number>>): K;
  /** A list of `count` throws. */
  times<T>(count: number, make: (index: number) => T): T[];
  /** A UUID. */
  uuid(): string;
  /** Dice of its own, so that more throws in one place change nothing in another. */
  apart(name: string): Dice;
}

/** Dice for a seed (mulberry32 over a hash of the seed and a name). */
export function diceOf(seed: number, name = ''): Dice {
  let state = hash(`${seed} ${name}`);
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  const whole = (least: number, most: number) => least + Math.floor(next() * (most - least + 1));
  return {
    next,
    whole,
    chance: (probability) => next() < probability,
    pick: <T>(from: readonly [T, ...T[]]) => from[whole(0, from.length - 1)] ?? from[0],
    weighed: <K extends string>(weights: Readonly<Record<K, number>>) => weighed(weights, next()),
    times: (count, make) => Array.from({ length: count }, (_, index) => make(index)),
    uuid: () => {
      const hex = Array.from({ length: 8 }, () => whole(0, 0xffff).toString(16).padStart(4, '0')).join('');
      return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20)}`;
    },
    apart: (other) => diceOf(seed, `${name}/${other}`),
  };
}

function weighed<K extends string>(weights: Readonly<Record<K, number>>, throwOf: number): K {
  const keys = Object.keys(weights) as K[];
  const total = keys.reduce((sum, key) => sum + weights[key], 0);
  let left = throwOf * total;
  for (const key of keys) {
    left -= weights[key];
    if (left < 0) return key;
  }
  return keys[0] as K;
}

/** FNV-1a. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
  return value | 0;
}
