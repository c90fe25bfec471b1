-- Serves the gauge, and whoever looks for parked events: without it they read the whole table. Empty while nothing is parked.
-- Not concurrently: a deploy that waits for another one's lock would deadlock with it. Recording waits while the table is
-- read once; on a large one, create it with CONCURRENTLY by hand before, and this finds it there.
CREATE INDEX IF NOT EXISTS "outbox_event_parked" ON "outbox_event"("sequence") WHERE (state = 'PARKED');
