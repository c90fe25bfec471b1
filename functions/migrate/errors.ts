/** A migration that an operator has to look at; the message starts with Prisma's code where Prisma has one. */
export class MigrationError extends Error {
  override readonly name: string = 'MigrationError';
}

/** An earlier run left this migration unfinished, so nothing more is applied until a person has resolved it. */
export class UnresolvedMigrationError extends MigrationError {
  override readonly name = 'UnresolvedMigrationError';
  constructor(migration: string, startedAt: Date) {
    super(
      `P3009: migration ${migration}, started at ${startedAt.toISOString()}, failed. Nothing was applied. ` +
        `Once the cause is removed, run: prisma migrate resolve --rolled-back ${migration}`,
    );
  }
}

/** A migration's file is not the one that was applied. */
export class EditedMigrationError extends MigrationError {
  override readonly name = 'EditedMigrationError';
  constructor(migration: string, appliedChecksum: string, fileChecksum: string) {
    super(
      `Migration ${migration} was edited after it was applied: the database has checksum ${appliedChecksum}, ` +
        `the file has ${fileChecksum}. Restore the file and put the change into a new migration.`,
    );
  }
}

/** PostgreSQL refused a migration; nothing of that file remains, and the cause says why. */
export class FailedMigrationError extends MigrationError {
  override readonly name = 'FailedMigrationError';
  constructor(migration: string, cause: unknown) {
    super(`P3018: migration ${migration} failed: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    });
  }
}

/** Another migration run held the lock for the whole wait. Worth another try later. */
export class MigrationLockError extends MigrationError {
  override readonly name = 'MigrationLockError';
  constructor(waitSeconds: number, cause: unknown) {
    super(`P1002: another migration run held the advisory lock for ${waitSeconds} s`, { cause });
  }
}
