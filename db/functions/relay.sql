-- SQL functions as all migrations together make them. Written by `make schema`, never by hand.

CREATE OR REPLACE FUNCTION hookwire.assert_origin(origin uuid, done_id bigint)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE
AS $function$
BEGIN
    IF origin <> hookwire.origin() OR done_id > (SELECT e.last_value FROM hookwire.event_id e) THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'event ids may begin anew: the server was restarted, replaced or restored since they were read';
    END IF;
    RETURN true;
END
$function$;
COMMENT ON FUNCTION hookwire.assert_origin(uuid,bigint) IS
'Return true, or raise: the ids are of another origin, or the sequence stands below an id that was passed as done. A
caller that remembers nothing yet has no origin.';
REVOKE EXECUTE ON FUNCTION hookwire.assert_origin(uuid,bigint) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.groups_of(layout smallint, sink text)
 RETURNS smallint
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN (SELECT COALESCE(((l.groups ->> groups_of.sink))::smallint, (1)::smallint) AS "coalesce" FROM hookwire.layouts l WHERE (l.number = groups_of.layout));
COMMENT ON FUNCTION hookwire.groups_of(smallint,text) IS
'Return the number of groups of a sink in a layout.';

CREATE OR REPLACE FUNCTION hookwire.last_batch_no(sink text, layout smallint, grp smallint)
 RETURNS bigint
 LANGUAGE sql
RETURN COALESCE((SELECT n.batch_no FROM hookwire.relay_batch_numbers n WHERE ((n.sink = last_batch_no.sink) AND (n.layout = last_batch_no.layout) AND (n.grp = last_batch_no.grp)) ORDER BY n.batch_no DESC LIMIT 1), (0)::bigint);
COMMENT ON FUNCTION hookwire.last_batch_no(text,smallint,smallint) IS
'Return the last number of a group, 0 where none was drawn. VOLATILE: it sees rows that were committed while it waited.';

CREATE OR REPLACE FUNCTION hookwire.note_batch_no()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    NEW.batch_no := greatest(NEW.batch_no, hookwire.last_batch_no(NEW.sink, NEW.layout, NEW.grp));
    RETURN NEW;
END $function$;
COMMENT ON FUNCTION hookwire.note_batch_no() IS
'A term begins with the last number on its row. A new layout begins with a number of its own.';
REVOKE EXECUTE ON FUNCTION hookwire.note_batch_no() FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.origin()
 RETURNS uuid
 LANGUAGE sql
 STABLE PARALLEL SAFE
AS $function$
    SELECT encode(substr(sha256(convert_to(concat_ws(' ', extract(epoch FROM pg_postmaster_start_time()),
               pg_relation_filepath('hookwire.event_id')), 'UTF8')), 1, 16), 'hex')::uuid
$function$;
COMMENT ON FUNCTION hookwire.origin() IS
'Return the origin of the ids that a process remembers: the run of the server, and the file of the sequence. A standby,
a restored server and a restarted server are other runs. A new database, a schema that was restored in place and a
sequence that was restarted have another file.';
REVOKE EXECUTE ON FUNCTION hookwire.origin() FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.scope_of(layout smallint)
 RETURNS text
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN (SELECT l.order_scope FROM hookwire.layouts l WHERE (l.number = scope_of.layout));
COMMENT ON FUNCTION hookwire.scope_of(smallint) IS
'Return the order scope of a layout: a key in all topics, or the key of one topic.';
