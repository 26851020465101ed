-- The delivery that waits behind another one of its lane. STABLE and one SELECT, so that it is inlined into the statements
-- that ask (db/sql/delivery.sql): they are planned as if it stood there.
CREATE FUNCTION hookwire.next_in_lane(subscription bigint, lane text, event bigint) RETURNS TABLE (place tid)
LANGUAGE sql STABLE AS $$
    SELECT x.ctid FROM hookwire.deliveries x
    WHERE x.subscription_id = $1 AND x.lane = $2 AND x.event_id > $3
    ORDER BY x.event_id LIMIT 1
$$;
