// What the reconciliation asks: each question is one statement, and its rows are what differs.

/** Temporary tables with what only the demo knows: what it posted, what stock it added, what the dead-letter queues hold. */
export const TABLES = {
  posted: 'id text, sku text, quantity int, note text, status text',
  posted_step: 'order_id text, step text',
  opening: 'sku text, available int',
  dead_letter: 'event_id uuid, source text, destination text, reason text',
};

/** A destination's consumer has its name, so this is the ledger's row for an outbox row. */
const APPLIED = 'a.event_id = e.event_id AND a.source = e.source AND a.consumer = e.destination';
/** The orders that the stock was asked for. */
const ASKED = `outbox_event e ON e.payload ->> 'orderId' = o.id AND e.destination = 'stock'`;

const EVENTS = {
  'Every order the API took is stored as it was posted, paid and shipped, and no other': `
    (SELECT 'posted' AS only_in, * FROM posted EXCEPT SELECT 'posted', id, sku, quantity, note, status FROM orders)
    UNION ALL
    (SELECT 'stored', id, sku, quantity, note, status FROM orders EXCEPT SELECT 'stored', * FROM posted)`,
  'Every step of every order has exactly one event for each of its destinations, and no event is without its step': `
    WITH route (step, destination) AS (
      VALUES ('placed', 'stock'), ('placed', 'history'), ('paid', 'history'), ('shipped', 'history')),
    event AS (SELECT *, payload ->> 'orderId' AS order_id, substr(type, 7) AS step FROM outbox_event)
    SELECT order_id, step, destination, count(p.order_id) AS steps, count(e.sequence) AS events
      FROM (posted_step JOIN route USING (step)) AS p FULL JOIN event e USING (order_id, step, destination)
     GROUP BY order_id, step, destination HAVING count(p.order_id) <> 1 OR count(e.sequence) <> 1`,
  'Every event has its step’s data, to the history its order for ordering key, and one id for all destinations': `
    SELECT e.event_id, e.destination, e.type, e.ordering_key, e.payload, other.event_id AS other_id
      FROM outbox_event e
      LEFT JOIN orders o ON o.id = e.payload ->> 'orderId'
      LEFT JOIN outbox_event other
        ON other.type = e.type AND other.payload ->> 'orderId' = o.id AND other.event_id <> e.event_id
     WHERE o.id IS NULL OR other.event_id IS NOT NULL
        OR e.ordering_key IS DISTINCT FROM CASE e.destination WHEN 'history' THEN o.id END
        OR e.type = 'order.placed' AND (e.payload ->> 'sku', e.payload ->> 'quantity', e.payload ->> 'note')
                                      IS DISTINCT FROM (o.sku, o.quantity::text, o.note)`,
  'Every event is published or parked: none pending, none under lease': `
    SELECT event_id, destination, state, attempts, due_at, lease_until, last_error
      FROM outbox_event WHERE state = 'PENDING' OR lease_until IS NOT NULL`,
  'Every published event was applied once by its consumer, or is a dead letter with its reason, and never both': `
    SELECT e.event_id, e.destination, e.published_at, a.applied_at, d.reason
      FROM outbox_event e
      LEFT JOIN dead_letter d USING (event_id, source, destination)
      LEFT JOIN applied_event a ON ${APPLIED}
     WHERE e.state = 'PUBLISHED'
       AND (a.event_id IS NULL) = (d.reason IS NULL)`,
  'Nothing was applied or dead-lettered that was not recorded for it': `
    SELECT event_id, source, consumer FROM applied_event
    UNION SELECT event_id, source, destination FROM dead_letter
    EXCEPT SELECT event_id, source, destination FROM outbox_event`,
};

const STOCK = {
  'Every stock balance is what it was, less the orders that were applied': `
    SELECT coalesce(s.sku, w.sku) AS sku, w.opening, w.ordered, w.opening - w.ordered AS expected, s.available
      FROM stock_balance s
      FULL JOIN (SELECT p.sku, p.available AS opening, coalesce(sum(o.quantity), 0) AS ordered
                   FROM opening p
                   LEFT JOIN (orders o JOIN ${ASKED} JOIN applied_event a ON ${APPLIED}) ON o.sku = p.sku
                  GROUP BY p.sku, p.available) AS w USING (sku)
     WHERE s.available IS DISTINCT FROM w.opening - w.ordered`,
  'No order was refused that would still fit': `
    SELECT o.id AS order_id, o.sku, o.quantity, s.available, d.reason
      FROM orders o JOIN ${ASKED}
      JOIN dead_letter d USING (event_id, source, destination)
      LEFT JOIN stock_balance s ON s.sku = o.sku
     WHERE o.quantity <= s.available OR s.sku IS NULL`,
  // Where all orders of a SKU are alike, it does not matter which came first.
  'As many orders were applied as the stock was enough for': `
    SELECT o.sku, p.available AS opening, count(*) AS orders, max(o.quantity) AS of_each,
           least(count(*), p.available / max(o.quantity)) AS expected, count(a.event_id) AS applied
      FROM orders o JOIN opening p USING (sku) JOIN ${ASKED}
      LEFT JOIN applied_event a ON ${APPLIED}
     WHERE e.state = 'PUBLISHED'
     GROUP BY o.sku, p.available
    HAVING CASE WHEN min(o.quantity) = max(o.quantity) THEN count(a.event_id) <> least(count(*), p.available / max(o.quantity))
                WHEN sum(o.quantity) <= p.available THEN count(a.event_id) <> count(*) END`,
};

const HISTORY = {
  'Every step of every order is in its history exactly once, and nothing else is': `
    SELECT order_id, step, count(p.order_id) AS posted, count(h.position) AS in_history
      FROM posted_step p FULL JOIN order_history h USING (order_id, step)
     GROUP BY order_id, step HAVING count(p.order_id) <> 1 OR count(h.position) <> 1`,
  'Every history is in order: placed, then paid, then shipped': `
    SELECT order_id, array_agg(step ORDER BY position) AS steps
      FROM order_history GROUP BY order_id
    HAVING array_agg(step ORDER BY position) <> (ARRAY['placed', 'paid', 'shipped'])[:count(*)::int]`,
  'The ledger of history has every event that was recorded for it': `
    SELECT e.event_id, e.type, e.ordering_key, e.state
      FROM outbox_event e LEFT JOIN applied_event a ON ${APPLIED}
     WHERE e.destination = 'history' AND a.event_id IS NULL`,
};

/** Each question with the statement whose rows answer it with no. */
export const QUESTIONS: Readonly<Record<string, string>> = { ...EVENTS, ...STOCK, ...HISTORY };
