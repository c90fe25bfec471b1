// Loaded by `startProcess({ clockAheadMs })` before the program: its Date runs ahead of the machine's.

const aheadMs = Number(process.env['TEST_CLOCK_AHEAD_MS']);

globalThis.Date = new Proxy(Date, {
  construct: (real, values: unknown[], target) =>
    Reflect.construct(real, values.length > 0 ? values : [real.now() + aheadMs], target) as Date,
  apply: (real) => new real(real.now() + aheadMs).toString(),
  get: (real, key) => (key === 'now' ? () => real.now() + aheadMs : (Reflect.get(real, key) as unknown)),
});
