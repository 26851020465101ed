-- Jobs from events: a topic whose sinks name `jobs` has a rule, and each of its events enqueues one job by it. The sink is
-- never part of the default routing. The rule is kept when the sink is taken away, for the events that still wait for it.
ALTER TABLE hookwire.sinks
    DROP CONSTRAINT sinks_name_check,
    ADD CONSTRAINT sinks_name_check CHECK (name IN ('kafka', 'amqp', 'webhooks', 'jobs'));
INSERT INTO hookwire.sinks (name, configured) VALUES ('jobs', true);
ALTER TABLE hookwire.topics
    ADD COLUMN job jsonb,
    ADD CONSTRAINT topics_job_check CHECK (
        'jobs' = ANY (sinks) IS NOT TRUE
        OR (jsonb_typeof(job) = 'object' AND NOT starts_with(name, 'hookwire.') AND name <> 'hookwire') IS TRUE);
COMMENT ON COLUMN hookwire.topics.job IS 'The rule by which the sink jobs enqueues a job for each event; NULL: there was never one.';

-- A rule is refused as a job would be. Its kind has a row from now on, so that no setting refuses its jobs later.
CREATE FUNCTION hookwire.admit_job_rule(rule jsonb) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM hookwire.check_job_draft(rule);
    INSERT INTO hookwire.job_kinds (kind) VALUES (rule->>'kind') ON CONFLICT DO NOTHING;
END
$$;

-- The arguments of an event's job. The content is `data` where it is JSON, else `payload` where it is text, else
-- `payload_base64`. Content that does not fit into arguments is left out, and GET /events/{id} has it.
CREATE FUNCTION hookwire.event_job_args(event_id text, topic text, key text, accepted_at timestamptz, content_type text, headers jsonb, payload bytea)
RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
    about CONSTANT jsonb := jsonb_build_object(
        'event_id', event_id, 'topic', topic, 'key', key, 'content_type', content_type, 'headers', headers,
        'accepted_at', to_char(accepted_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'));
    args jsonb;
BEGIN
    IF octet_length(payload) <= 1000000 THEN
        args := about || hookwire.event_job_content(payload);
    END IF;
    RETURN CASE WHEN octet_length(args::text) <= 1048576 THEN args ELSE about || '{"is_left_out": true}' END;
END
$$;

CREATE FUNCTION hookwire.event_job_content(payload bytea) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
    data CONSTANT jsonb := hookwire.json_of(payload);
BEGIN
    IF data IS NOT NULL THEN
        RETURN jsonb_build_object('data', data);
    END IF;
    RETURN jsonb_build_object('payload', convert_from(payload, 'UTF8'));
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
    RETURN jsonb_build_object('payload_base64', translate(encode(payload, 'base64'), E'\n', ''));
END
$$;

-- One job for each of these events, in the transaction that takes them out of the outbox. Returns how many.
CREATE FUNCTION hookwire.enqueue_events(ids bigint[], incarnation text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    drafts CONSTANT jsonb := (
        SELECT jsonb_agg(t.job || jsonb_build_object('key', coalesce(e.key, ''), 'args', hookwire.event_job_args(
                   format('evt_%s_%s', incarnation, e.id), e.topic, e.key, e.accepted_at, e.content_type, e.headers, e.payload)) ORDER BY e.id)
        FROM unnest(ids) AS i(id)
        CROSS JOIN LATERAL (SELECT x.* FROM hookwire.events x WHERE x.id BETWEEN i.id AND i.id ORDER BY x.id LIMIT 1) AS e
        JOIN hookwire.topics t ON t.tenant = e.tenant AND t.name = e.topic
        WHERE t.job IS NOT NULL);
BEGIN
    RETURN (SELECT count(*) FROM hookwire.add_jobs(coalesce(drafts, '[]'), 'topic'));
END
$$;
