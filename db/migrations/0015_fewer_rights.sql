-- Leave to PUBLIC the functions that docs/reference/sql.md gives to every role with USAGE on the schema, and no other (ADR 57).
-- A trigger needs no right to execute its function. If an operator has taken one of these from PUBLIC, it stays so.
DO $$
DECLARE
    other record;
BEGIN
    FOR other IN
        SELECT p.oid::regprocedure AS signature FROM pg_proc p
        WHERE p.pronamespace = 'hookwire'::regnamespace
          AND p.proname <> ALL ('{publish,submit,submit_batch,message_count,enqueue,add_jobs,enqueue_task,request,answer_of,close_request}')
          -- A relay of goharvest's table calls these as a role of its own. Their bodies were parsed when they were created.
          AND p.proname <> ALL ('{groups_of,scope_of,last_batch_no}')
    LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', other.signature);
    END LOOP;
END
$$;

-- It runs as the role that publishes, with that role's search path.
ALTER FUNCTION hookwire.stash_row() SET search_path = pg_catalog, pg_temp;
