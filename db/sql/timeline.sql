-- Timeline: what happened to one event, for GET /events/{id}/timeline.

-- name: attempts
-- Return the attempts of an event, by subscription and number.
SELECT a.subscription_id, a.number, a.started_at, a.trigger, a.outcome, a.decision, a.status, a.detail, a.total_seconds, a.worker,
       substring(a.response_body FOR 2000) AS answer
FROM hookwire.attempts a WHERE a.tenant = $1 AND a.event_id = $2 ORDER BY a.subscription_id, a.number LIMIT $3;

-- name: unmatched
-- Return active subscriptions whose topic or pattern matches the event's topic now, and that never had a delivery of it.
-- Their filters are judged as they are now. Each is looked up by itself, because a join may read all deliveries. At most $3 subscriptions of the topic and $3 patterns are looked at.
WITH event AS MATERIALIZED (
    SELECT e.id, e.tenant, e.topic, e.key, e.accepted_at, e.content_type, e.headers, e.payload
    FROM hookwire.events e WHERE e.tenant = $1 AND e.id = $2
), document AS MATERIALIZED (
    SELECT hookwire.filter_document(e.topic, e.key, e.accepted_at, e.content_type, e.headers, e.payload) AS document,
           hookwire.value_count(e.payload) AS value_count
    FROM event e WHERE octet_length(e.payload) <= 262144
), asked AS MATERIALIZED (
    SELECT x.id FROM event e CROSS JOIN LATERAL (
        SELECT y.id FROM hookwire.subscriptions y
        WHERE y.tenant = e.tenant AND y.topic = e.topic AND y.state = 'active' AND y.topic_regex IS NULL LIMIT $3
    ) AS x
    UNION ALL
    SELECT x.id FROM event e CROSS JOIN LATERAL (
        SELECT y.id, y.topic_regex FROM hookwire.subscriptions y
        WHERE y.tenant = e.tenant AND y.state = 'active' AND y.topic_regex IS NOT NULL ORDER BY y.topic_regex LIMIT $3
    ) AS x WHERE e.topic ~ x.topic_regex
)
SELECT s.public_id, s.topic, s.callback, s.created_at, s.created_at > e.accepted_at AS is_younger,
       s.filter_path IS NULL OR (
           SELECT CASE WHEN hookwire.is_affordable(d.value_count, s.filter_path) THEN hookwire.passes(d.document, s.filter_path)
                       ELSE false END
           FROM document d) AS passes
FROM event e CROSS JOIN asked a
CROSS JOIN LATERAL (SELECT x.* FROM hookwire.subscriptions x WHERE x.id = a.id LIMIT 1) AS s
WHERE (SELECT true FROM hookwire.deliveries d WHERE d.event_id = e.id AND d.subscription_id = a.id LIMIT 1) IS NULL
  AND (SELECT true FROM hookwire.dead_letters l WHERE l.event_id = e.id AND l.subscription_id = a.id LIMIT 1) IS NULL
  AND (SELECT true FROM hookwire.attempts t WHERE t.event_id = e.id AND t.subscription_id = a.id LIMIT 1) IS NULL
ORDER BY s.id LIMIT $4;
