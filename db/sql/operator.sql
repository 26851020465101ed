-- Operator events: notices for operators, on the topic hookwire.operator.

-- name: notify
-- Publish these notices, a JSON array of {subscription, ...}, if a subscription to the hub's own topics exists, or the topic's own settings name another sink.
WITH told AS MATERIALIZED (
    SELECT array_agg(1) AS units, array_agg('hookwire.operator'::text) AS topics, array_agg(NULL::text) AS keys,
           array_agg('application/json'::text) AS types, array_agg('{}'::text) AS headers,
           array_agg(convert_to((n.notice - 'subscription' || jsonb_build_object(
               'at', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
               'about', jsonb_build_object('kind', 'subscription', 'id', s.public_id), 'subscription_id', s.public_id, 'topic', s.topic, 'callback', s.callback))::text, 'UTF8')) AS payloads
    FROM jsonb_array_elements($1::text::jsonb) AS n(notice)
    CROSS JOIN LATERAL (
        SELECT x.tenant, x.public_id, x.topic, x.callback FROM hookwire.subscriptions x
        WHERE x.id = (n.notice->>'subscription')::bigint LIMIT 1
    ) AS s
    WHERE EXISTS (SELECT FROM hookwire.subscriptions x
                  WHERE x.tenant = s.tenant AND x.state = 'active' AND x.topic_regex IS NULL AND x.topic = 'hookwire.operator')
       OR EXISTS (SELECT FROM hookwire.subscriptions x
                  WHERE x.tenant = s.tenant AND x.state = 'active' AND x.topic_regex IS NOT NULL AND x.topic LIKE 'hookwire.%')
       OR EXISTS (SELECT FROM hookwire.topics o
                  WHERE o.tenant = s.tenant AND o.name = 'hookwire.operator' AND cardinality(array_remove(o.sinks, 'webhooks')) > 0)
)
SELECT count(p.event_id) FROM told t CROSS JOIN LATERAL hookwire.publish_batch(
    'default', t.units, t.topics, t.keys, t.types, t.headers, t.payloads, t.keys, array_fill(NULL::bytea, ARRAY[cardinality(t.units)]), true) AS p
WHERE t.units IS NOT NULL;
