-- Lanes of deliveries: in an ordered subscription only the lowest event of a key is due (RR-10), the head of the lane.
-- Deliveries behind it have due_at = infinity. A statement that ends a head makes the next delivery due: settle,
-- dead_letter_orphans, dead_letter.

-- name: promote_heads
-- Make heads due that no other statement made due, with one step per lane. Such a head remains if a fan-out still saw the
-- old head while its settlement did not see the new delivery. It also remains after any other deletion of a head.
WITH RECURSIVE walk AS (
    (SELECT subscription_id, lane, ctid AS place, due_at FROM hookwire.deliveries
     WHERE lane IS NOT NULL ORDER BY subscription_id, lane, event_id LIMIT 1)
    UNION ALL
    SELECT n.subscription_id, n.lane, n.place, n.due_at
    FROM walk w CROSS JOIN LATERAL (
        SELECT d.subscription_id, d.lane, d.ctid AS place, d.due_at FROM hookwire.deliveries d
        WHERE d.lane IS NOT NULL AND (d.subscription_id, d.lane) > (w.subscription_id, w.lane)
        ORDER BY d.subscription_id, d.lane, d.event_id LIMIT 1
    ) AS n
), promoted AS (
    UPDATE hookwire.deliveries d SET due_at = now()
    FROM (SELECT x.ctid AS place FROM walk w JOIN hookwire.deliveries x ON x.ctid = w.place
          WHERE NOT isfinite(w.due_at) AND NOT isfinite(x.due_at) AND x.parked_at IS NULL
          FOR UPDATE OF x SKIP LOCKED) AS head
    WHERE d.ctid = head.place
    RETURNING d.subscription_id
)
SELECT DISTINCT subscription_id FROM promoted;
