-- A restored database gets a new name, and the events that it has keep the old one.

CREATE TABLE hookwire.former_incarnations (
    through_id bigint PRIMARY KEY CHECK (through_id > 0),
    incarnation text NOT NULL CHECK (incarnation ~ '^[a-z2-7]{8}$')
);
COMMENT ON TABLE hookwire.former_incarnations IS 'The names that this installation had before.';
COMMENT ON COLUMN hookwire.former_incarnations.through_id IS 'The last event id that bears the name.';
COMMENT ON COLUMN hookwire.former_incarnations.incarnation IS 'The middle part of the public ids of these events.';

CREATE FUNCTION hookwire.event_name(id bigint, incarnation text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT format('evt_%s_%s', coalesce((
        SELECT f.incarnation FROM hookwire.former_incarnations f WHERE f.through_id >= event_name.id ORDER BY f.through_id LIMIT 1),
        event_name.incarnation), event_name.id)
$$;
COMMENT ON FUNCTION hookwire.event_name(bigint, text) IS
'Return the public id of an event: with the present incarnation, or with one of before.';
REVOKE EXECUTE ON FUNCTION hookwire.event_name(bigint, text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.enqueue_events(ids bigint[], incarnation text)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
DECLARE
    drafts CONSTANT jsonb := (
        SELECT jsonb_agg(t.job || jsonb_build_object('key', coalesce(e.key, ''), 'args', hookwire.event_job_args(
                   hookwire.event_name(e.id, enqueue_events.incarnation), e.topic, e.key, e.accepted_at, e.content_type, e.headers, e.payload)) ORDER BY e.id)
        FROM unnest(ids) AS i(id)
        CROSS JOIN LATERAL (SELECT x.* FROM hookwire.events x WHERE x.id BETWEEN i.id AND i.id ORDER BY x.id LIMIT 1) AS e
        CROSS JOIN LATERAL (SELECT x.job FROM hookwire.topics x WHERE x.tenant = e.tenant AND x.name = e.topic LIMIT 1) AS t
        WHERE t.job IS NOT NULL);
BEGIN
    RETURN (SELECT count(*) FROM hookwire.add_jobs(coalesce(drafts, '[]'), 'topic'));
END
$function$;
