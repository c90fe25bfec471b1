import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    setupFiles: ['test/support/hooks.ts'],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    // A shared machine may stall any one test; it is run once more there, and a test that fails twice fails.
    retry: process.env['CI'] ? 1 : 0,
    // Two cores: more files at once would only wait on each other.
    maxWorkers: 2,
  },
});
