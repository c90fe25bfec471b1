import { connect } from '../shared/database.ts';
import { pruneConfig } from './config.ts';
import { prune } from './prune.ts';

const config = pruneConfig(process.env);

/** The Lambda entry. */
export const handler = prune({ prisma: connect(config), config });
