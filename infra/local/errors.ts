/** A mistake in the command line or in the surroundings; shown without a stack trace. */
export class UsageError extends Error {
  override readonly name: string = 'UsageError';
}
