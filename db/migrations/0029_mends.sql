-- Of pull subscriptions that nobody asks: the sweep finds those whose time is over, not all subscriptions there are. And
-- the latest subscription of a pair, whatever became of it (GET /hub/pairs).
CREATE INDEX subscriptions_pull_lease ON hookwire.subscriptions (lease_until) WHERE protocol = 'pull' AND state = 'active';
CREATE INDEX subscriptions_pair ON hookwire.subscriptions (tenant, identity, id) WHERE protocol = 'websub';

-- As in 0001, but the hub's own topics exist without having been made: what operators hear reaches them also where topics
-- are not created by their first publish. Nobody else publishes there (0010).
CREATE OR REPLACE FUNCTION hookwire.check_drafts(topics text[], keys text[], payloads bytea[]) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
    house hookwire.installation;
    wrong text;
BEGIN
    SELECT * INTO house FROM hookwire.installation;
    SELECT CASE
               WHEN d.topic IS NULL OR octet_length(d.topic) > 249 OR d.topic !~ '^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$'
                   THEN format('invalid topic %L: 1-249 of A-Z a-z 0-9 . _ - in dot-separated words', left(d.topic, 80))
               WHEN d.key = '' OR octet_length(d.key) > 1024 OR d.key ~ '[\x01-\x1f\x7f]'
                   THEN 'invalid key: 1-1024 bytes without control characters, or NULL for none'
               WHEN d.payload IS NULL OR octet_length(d.payload) > house.payload_bytes_max
                   THEN format('payload missing or larger than %s bytes', house.payload_bytes_max)
           END
    INTO wrong
    FROM unnest(topics, keys, payloads) AS d(topic, key, payload)
    WHERE d.topic IS NULL OR octet_length(d.topic) > 249 OR d.topic !~ '^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$'
       OR d.key = '' OR octet_length(d.key) > 1024 OR d.key ~ '[\x01-\x1f\x7f]'
       OR d.payload IS NULL OR octet_length(d.payload) > house.payload_bytes_max
    LIMIT 1;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'hookwire.publish: ' || wrong;
    END IF;
    IF NOT house.topics_auto_create THEN
        SELECT d.topic INTO wrong FROM unnest(topics) AS d(topic)
        WHERE NOT starts_with(d.topic, 'hookwire.')
          AND NOT EXISTS (SELECT FROM hookwire.topics t WHERE t.tenant = 'default' AND t.name = d.topic) LIMIT 1;
        IF wrong IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('hookwire.publish: unknown topic %L', wrong);
        END IF;
    END IF;
END
$$;
