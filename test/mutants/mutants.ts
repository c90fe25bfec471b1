// Safeguards, taken out one at a time. Each must be missed by a test, or by the campaign.

/** A text that stands in a file exactly once, and what takes its place. */
export interface Edit {
  readonly file: string;
  readonly search: string;
  readonly replacement: string;
}

/** Tests by file and the beginning of their name, or so many histories of a campaign. */
export type Catcher =
  { readonly file: string; readonly name: string } | { readonly seed: number; readonly histories: number };

export interface Mutant {
  /** What is taken out. */
  readonly name: string;
  readonly edits: readonly Edit[];
  /** Each of these is expected to notice. */
  readonly catchers: readonly Catcher[];
}

const edit = (file: string, search: string, replacement = ''): Edit => ({
  file: `functions/${file}`,
  search,
  replacement,
});
const test = (file: string, name: string): Catcher => ({ file: `test/${file}.test.ts`, name });
const campaign = (seed: number, histories: number): Catcher => ({ seed, histories });

/** The fence without its token, as it is written in a statement. */
const UNFENCED = "WHERE ${HELD.replace('claim_token = $2::uuid', '$2::uuid IS NOT NULL')}";
const LOST_CLAIM = test('settle', 'after its claim was lost to another relay, changes nothing');
const HEAD = `AND state <> 'PUBLISHED' AND (asked.hold OR state = 'PENDING')`;

export const mutants: readonly Mutant[] = [
  {
    name: 'the token in acknowledge',
    edits: [edit('relay/acknowledge.ts', '\nWHERE ${HELD}', `\n${UNFENCED}`)],
    catchers: [LOST_CLAIM, test('settle', 'what the queue took and another relay holds is fenced out')],
  },
  {
    name: 'the token in acknowledge, where published rows are deleted',
    edits: [edit('relay/acknowledge.ts', 'outbox_event WHERE ${HELD}', `outbox_event ${UNFENCED}`)],
    catchers: [test('settle', 'without retention it deletes the row, and no other'), LOST_CLAIM],
  },
  {
    name: 'the token in release',
    edits: [edit('relay/release.ts', 'WHERE ${HELD}', UNFENCED)],
    catchers: [LOST_CLAIM],
  },
  {
    name: 'the token in park',
    edits: [edit('relay/park.ts', 'WHERE ${HELD}', UNFENCED)],
    catchers: [LOST_CLAIM],
  },
  {
    name: "the guard in the claim's UPDATE, and the lock before it",
    edits: [
      edit('relay/claim.ts', 'FROM fitting)) AND ${CLAIMABLE}', 'FROM fitting))'),
      edit('relay/claim.ts', '\n  FOR NO KEY UPDATE SKIP LOCKED'),
    ],
    catchers: [
      test('relay', 'eight at once over 200 rows'),
      test('claim', 'two connections race for one row'),
    ],
  },
  {
    name: 'the state check of the claim',
    edits: [edit('relay/claim.ts', "`state = 'PENDING' AND due_at", '`due_at')],
    catchers: [test('claim', 'only pending rows that are due and that nobody holds')],
  },
  {
    name: 'SKIP LOCKED',
    edits: [edit('relay/claim.ts', 'FOR NO KEY UPDATE SKIP LOCKED', 'FOR NO KEY UPDATE')],
    catchers: [test('claim', 'who comes while the claim is not yet committed neither waits nor wins')],
  },
  {
    name: 'attempts at claim',
    edits: [edit('relay/claim.ts', 'attempts = attempts + 1', 'attempts = attempts')],
    catchers: [test('relay', 'a row whose send kills the process is parked after three'), campaign(1, 4)],
  },
  {
    name: 'the per-entry reading of `Failed`',
    edits: [
      edit(
        'relay/sqs.ts',
        "if (success) return { kind: 'published', messageId: success.MessageId ?? '' };",
        "return { kind: 'published', messageId: success?.MessageId ?? '' };",
      ),
    ],
    catchers: [test('relay', 'a batch that fails in part costs its neighbours nothing'), campaign(1, 12)],
  },
  {
    name: "the ledger insert's place inside the transaction",
    edits: [
      edit(
        'consumer/apply.ts',
        'await store.query<LedgerKey>(ENTER',
        'await storeOf(prisma).query<LedgerKey>(ENTER',
      ),
    ],
    catchers: [test('consumer', 'neither the ledger row nor the effect, until both'), campaign(1, 4)],
  },
  {
    name: "the ledger insert's place inside the transaction, and the alive-check",
    edits: [
      edit(
        'consumer/apply.ts',
        'await store.query<LedgerKey>(ENTER',
        'await storeOf(prisma).query<LedgerKey>(ENTER',
      ),
      edit('consumer/apply.ts', 'await proveAlive(store, consumer, fresh)', 'Date.now()'),
    ],
    catchers: [test('consumer', 'neither the ledger row nor the effect, until both'), campaign(1, 12)],
  },
  {
    name: 'the alive-check before commit',
    edits: [edit('consumer/apply.ts', 'await proveAlive(store, consumer, fresh)', 'Date.now()')],
    catchers: [test('consumer', 'and swallows its error is not reported as applied'), campaign(1, 12)],
  },
  {
    name: "prune's state filter, twice, and `published_at` which stands for it",
    edits: [
      edit(
        'prune/prune.ts',
        "WHERE state = 'PUBLISHED' AND published_at <= cutoff.at))\n    AND state = 'PUBLISHED'",
        'WHERE coalesce(published_at, recorded_at) <= cutoff.at))',
      ),
    ],
    catchers: [test('prune', 'pending and parked rows stay, however old'), campaign(1, 12)],
  },
  {
    name: 'the head-of-key rule: the first claimable event of a key instead of the first unpublished one',
    edits: [
      edit(
        'relay/heads.ts',
        `coalesce(asked.after, '')\n         ${HEAD}`,
        `coalesce(asked.after, '')\n         ${HEAD} AND \${CLAIMABLE}`,
      ),
      edit(
        'relay/heads.ts',
        `step.ordering_key\n          ${HEAD}`,
        `step.ordering_key\n          ${HEAD} AND \${CLAIMABLE}`,
      ),
    ],
    catchers: [
      test('ordering', 'an event that is delayed or backing off holds up its own key only'),
      campaign(1, 12),
    ],
  },
  {
    name: 'one event per key: all that wait in a key are claimed with its head',
    edits: [
      edit(
        'relay/heads.ts',
        'WHERE sequence = ANY (ARRAY(SELECT sequence FROM heads)) AND ${CLAIMABLE}',
        'WHERE (destination, ordering_key) IN (SELECT destination, ordering_key FROM heads) AND ${CLAIMABLE}',
      ),
      edit(
        'relay/heads.ts',
        'LEFT JOIN claimed USING (sequence)',
        'LEFT JOIN claimed ON claimed.destination = heads.destination AND "orderingKey" = heads.ordering_key',
      ),
    ],
    catchers: [test('ordering', 'a parked head holds its key until a person replays it'), campaign(1, 12)],
  },
];
