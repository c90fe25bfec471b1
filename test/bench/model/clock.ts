/** Virtual time: things happen in order, and waiting costs nothing. */
export class Clock {
  now = 0;
  #at: { time: number; order: number; what: () => void }[] = [];
  #order = 0;

  /** Does something so many milliseconds from now. */
  after(ms: number, what: () => void): void {
    const entry = { time: this.now + Math.max(0, ms), order: (this.#order += 1), what };
    let low = 0;
    let high = this.#at.length;
    // Sorted with the next one last.
    while (low < high) {
      const middle = (low + high) >>> 1;
      const other = this.#at[middle];
      if (other && (other.time > entry.time || (other.time === entry.time && other.order > entry.order)))
        low = middle + 1;
      else high = middle;
    }
    this.#at.splice(low, 0, entry);
  }

  /** Goes on until nothing is left to do, or the time is over. */
  run(untilMs: number): void {
    for (let next = this.#at.pop(); next; next = this.#at.pop()) {
      if (next.time > untilMs) return;
      this.now = next.time;
      next.what();
    }
  }
}

/** A processor that does one thing after another; with more or less of a core than one. */
export class Processor {
  busyMs = 0;
  #freeAt = 0;
  readonly #clock: Clock;
  readonly #cores: number;

  constructor(clock: Clock, cores: number) {
    this.#clock = clock;
    this.#cores = cores;
  }

  /** Works so many milliseconds of a whole core, then goes on. */
  use(ms: number, then: () => void): void {
    const took = ms / this.#cores;
    this.busyMs += took;
    this.#freeAt = Math.max(this.#freeAt, this.#clock.now) + took;
    this.#clock.after(this.#freeAt - this.#clock.now, then);
  }
}
