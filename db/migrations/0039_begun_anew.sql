-- Ids that a process remembers (FC-01). A relay's low-water marks, and the ids of what it has in flight, are true of one
-- state of the database. After a crash that lost WAL, on a promoted standby or after a restore the sequence hands out ids
-- again that were drawn before and never kept. Two things make the memory of a process safe:
--
-- 1. What a mark rests on is on disk before the mark is used. Setting this sequence writes WAL, and the commit of the
--    statement that does so flushes it, with all WAL before it: the ids that were drawn until then.
CREATE SEQUENCE hookwire.horizon AS bigint CACHE 1;

-- 2. Each statement that uses such ids names the origin that they come from: the run of the server, and the file of the
--    sequence. A standby, a restored server and a restarted one are other runs; a database that was made anew, a schema that
--    was restored in place and a sequence that was restarted have another file.
CREATE FUNCTION hookwire.origin() RETURNS uuid
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT encode(substr(sha256(convert_to(concat_ws(' ', extract(epoch FROM pg_postmaster_start_time()),
               pg_relation_filepath('hookwire.event_id')), 'UTF8')), 1, 16), 'hex')::uuid
$$;

-- True, or an error: ids of another origin are meant, or the sequence stands below an id that was passed as done. A
-- caller that remembers nothing yet has no origin.
CREATE FUNCTION hookwire.assert_origin(origin uuid, done_id bigint) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF origin <> hookwire.origin() OR done_id > (SELECT e.last_value FROM hookwire.event_id e) THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'event ids may begin anew: the server was restarted, replaced or restored since they were read';
    END IF;
    RETURN true;
END
$$;

-- The patterns of a tenant, each once, and the subscriptions of each (FC-02): the fan-out compares a pattern with a topic
-- once, whatever the number of its subscriptions. Takes the place of an index of the tenant alone.
CREATE INDEX IF NOT EXISTS subscriptions_patterns ON hookwire.subscriptions (tenant, topic_regex)
    WHERE state = 'active' AND topic_regex IS NOT NULL;
DROP INDEX hookwire.subscriptions_pattern;

-- The same of former audiences (FC-08): one index of the topics that they name, one of their patterns. Many subscriptions
-- that change while the fan-out lags behind are not read anew for each topic.
CREATE INDEX IF NOT EXISTS former_audiences_exact ON hookwire.former_audiences (tenant, topic, until_id) WHERE topic_regex IS NULL;
CREATE INDEX IF NOT EXISTS former_audiences_patterns ON hookwire.former_audiences (tenant, topic_regex, until_id)
    WHERE topic_regex IS NOT NULL;
DROP INDEX hookwire.former_audiences_by_topic;
