-- A notice for operators is stored also if the topic's own settings name a sink. The sinks of the hub alone do not count:
-- an installation with Kafka gets no notices there that nobody asked for.
CREATE OR REPLACE FUNCTION hookwire.tell_operators(notices jsonb[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF cardinality(notices) > 0 AND (
        EXISTS (SELECT FROM hookwire.subscriptions x
                WHERE x.tenant = 'default' AND x.state = 'active' AND x.topic_regex IS NULL AND x.topic = 'hookwire.operator')
        OR EXISTS (SELECT FROM hookwire.subscriptions x
                   WHERE x.tenant = 'default' AND x.state = 'active' AND x.topic_regex IS NOT NULL AND x.topic LIKE 'hookwire.%')
        OR EXISTS (SELECT FROM hookwire.topics t
                   WHERE t.tenant = 'default' AND t.name = 'hookwire.operator'
                     AND cardinality(array_remove(t.sinks, 'webhooks')) > 0)) THEN
        PERFORM hookwire.publish_batch(
            'default', array_fill(1, size), array_fill('hookwire.operator'::text, size), array_fill(NULL::text, size),
            array_fill('application/json'::text, size), array_fill('{}'::text, size),
            ARRAY(SELECT convert_to((n || jsonb_build_object('at', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')))::text, 'UTF8')
                  FROM unnest(notices) AS n),
            array_fill(NULL::text, size), array_fill(NULL::bytea, size), true)
        FROM (SELECT ARRAY[cardinality(notices)] AS size) AS s;
    END IF;
END
$$;
COMMENT ON FUNCTION hookwire.tell_operators(jsonb[]) IS
'Publish notices for operators on the topic hookwire.operator, if a subscription asks for the hub''s own topics, or if
the topic''s own settings name another sink than webhooks.';
