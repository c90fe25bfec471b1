-- Serves the gauge, and whoever looks for parked events: without it they read the whole table. Empty while nothing is parked.
-- Concurrently, and therefore alone in its file, so that recording goes on meanwhile.
CREATE INDEX CONCURRENTLY "outbox_event_parked" ON "outbox_event"("sequence") WHERE (state = 'PARKED');
