// Yours: the event types, declared once for those who record them and those who apply them. Any Standard Schema
// validator will do.
import { defineEvents, recorder } from 'prisma-outbox-relay';
import * as z from 'zod';

export const events = defineEvents({
  'example.happened': z.object({ name: z.string().min(1) }),
});

/** Records inside your transaction: `await recordEvents(tx, [{ type: 'example.happened', payload: { name: 'Ada' } }])`. */
export const recordEvents = recorder(events, {
  source: '/example',
  // Names of OUTBOX_DESTINATIONS in outbox/serverless.yml.
  routes: { 'example.happened': ['example'] },
});
