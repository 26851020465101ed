-- Listeners: who would get an event of a topic that is published now.

-- name: of_topic
-- Where the topic is routed, which of that is configured, and whether any subscription matches.
SELECT coalesce(t.sinks, c.names) AS sinks, c.names AS configured,
       EXISTS (SELECT FROM hookwire.subscriptions s
               WHERE s.tenant = $1 AND s.topic = $2 AND s.state = 'active' AND s.topic_regex IS NULL
                 AND (s.lease_until IS NULL OR s.lease_until > now()))
    OR EXISTS (SELECT FROM hookwire.subscriptions s
               WHERE s.tenant = $1 AND $2 ~ s.topic_regex AND s.state = 'active' AND s.topic_regex IS NOT NULL
                 AND (s.lease_until IS NULL OR s.lease_until > now())) AS subscribed
FROM (SELECT coalesce(array_agg(k.name ORDER BY k.name), '{}') AS names FROM hookwire.sinks k WHERE k.configured) AS c
LEFT JOIN hookwire.topics t ON t.tenant = $1 AND t.name = $2;
