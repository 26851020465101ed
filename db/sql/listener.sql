-- Listeners: the receivers of an event of a topic that is published now.

-- name: of_topic
-- Return where the topic is routed, which of those sinks are configured, and whether any subscription matches.
SELECT coalesce(t.sinks, array_remove(c.names, 'jobs')) AS sinks, c.names AS configured,
       EXISTS (SELECT FROM hookwire.subscriptions s
               WHERE s.tenant = $1 AND s.topic = $2 AND s.state = 'active' AND s.topic_regex IS NULL
                 AND (s.lease_until IS NULL OR s.lease_until > now()))
    OR EXISTS (SELECT FROM hookwire.subscriptions s
               WHERE s.tenant = $1 AND $2 ~ s.topic_regex AND s.state = 'active' AND s.topic_regex IS NOT NULL
                 AND (s.lease_until IS NULL OR s.lease_until > now())) AS subscribed
FROM (SELECT coalesce(array_agg(k.name ORDER BY k.name), '{}') AS names FROM hookwire.sinks k WHERE k.configured) AS c
LEFT JOIN hookwire.topics t ON t.tenant = $1 AND t.name = $2;

-- name: matched
-- Return up to $2 active subscriptions, oldest first, that match this stored event.
SELECT s.public_id, s.topic
FROM hookwire.events e CROSS JOIN LATERAL (
    SELECT x.id, x.public_id, x.topic, x.filter_path FROM hookwire.subscriptions x
    WHERE x.tenant = e.tenant AND x.topic = e.topic AND x.state = 'active' AND x.topic_regex IS NULL
      AND (x.lease_until IS NULL OR x.lease_until > now())
    UNION ALL
    SELECT x.id, x.public_id, x.topic, x.filter_path FROM hookwire.subscriptions x
    WHERE x.tenant = e.tenant AND x.state = 'active' AND x.topic_regex IS NOT NULL AND e.topic ~ x.topic_regex
      AND (x.lease_until IS NULL OR x.lease_until > now())
) AS s
WHERE e.id = $1 AND 'webhooks' = ANY (e.sinks)
  AND hookwire.event_passes(e.topic, e.key, e.accepted_at, e.content_type, e.headers, e.payload, s.filter_path)
ORDER BY s.id LIMIT $2;
