import type { Context } from 'aws-lambda';
import { connect } from '../shared/database.ts';
import { invocationTimeLeft } from '../shared/deadline.ts';
import { nameInvocation, report } from '../shared/report.ts';
import { storeOf } from '../shared/store.ts';
import { pruneConfig } from './config.ts';
import { pruneLedger, pruneOutbox } from './prune.ts';

const config = pruneConfig(process.env);
const store = storeOf(connect(config));

/** Prunes what is past its retention, as far as one invocation comes, and returns how many rows went. */
export async function handler(
  _event: unknown,
  context: Context,
): Promise<{ outbox: number; ledger: number }> {
  nameInvocation(context);
  const timeLeft = invocationTimeLeft(context, 0);
  const counts = {
    outbox: await pruneOutbox(store, config.retentionHours, timeLeft),
    ledger: await pruneLedger(store, config.ledgerRetentionDays, timeLeft),
  };
  report('prune.done', counts);
  return counts;
}
