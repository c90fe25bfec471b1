import { connect } from '../shared/database.ts';
import { gaugeConfig } from './config.ts';
import { gauge } from './gauge.ts';

/** The Lambda entry. */
export const handler = gauge({ prisma: connect(gaugeConfig(process.env)) });
