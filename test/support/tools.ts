// Tests that need what `npm run runtime` makes.

import { describe, test } from 'vitest';
import { isThere, type Tool } from '../../infra/runtime/places.ts';

/**
 * Declares tests that need a tool. Without it they are reported as skipped, with the way to it in their name; where
 * TEST_TOOLS is `required`, as in .ci/run, its absence is a failure.
 */
export async function withTool(tool: Tool, tests: () => void): Promise<void> {
  if (await isThere(tool)) {
    describe(tool, tests);
  } else if (process.env['TEST_TOOLS'] === 'required') {
    test(`${tool} is there`, () => {
      throw new Error(`${tool} is not there, and TEST_TOOLS=required: run \`npm run runtime\``);
    });
  } else {
    describe.skip(`${tool} is not there (\`npm run runtime\` makes it)`, tests);
  }
}
