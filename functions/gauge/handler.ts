import type { Context } from 'aws-lambda';
import { connect } from '../shared/database.ts';
import { nameInvocation, report } from '../shared/report.ts';
import { storeOf } from '../shared/store.ts';
import { gaugeConfig } from './config.ts';
import { measureBacklog, type Measured } from './gauge.ts';

const store = storeOf(connect(gaugeConfig(process.env)));

/** Measures how far behind the relay is, reports it, and returns it. The event's content does not matter. */
export async function handler(_event: unknown, context: Context): Promise<Measured> {
  nameInvocation(context);
  const measured = await measureBacklog(store);
  report('gauge.measured', { ...measured });
  return measured;
}
