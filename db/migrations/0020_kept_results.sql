-- A job that is reported done is completed. A result that cannot be stored is kept as a cut text, with a note in the trail.
CREATE FUNCTION hookwire.why_no_result(result jsonb) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN CASE
        WHEN octet_length(result::text) > 1048576 THEN 'the result is larger than 1 MiB'
        WHEN NOT hookwire.is_readable_json(result) THEN 'the result is nested deeper than 64, or holds a number of more than 1,000 digits'
    END;
REVOKE EXECUTE ON FUNCTION hookwire.why_no_result(jsonb) FROM PUBLIC;

CREATE FUNCTION hookwire.cut_result(result jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE
    RETURN to_jsonb(left(CASE jsonb_typeof(result) WHEN 'string' THEN result #>> '{}' ELSE result::text END, 65536));
REVOKE EXECUTE ON FUNCTION hookwire.cut_result(jsonb) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.check_job_result(result jsonb) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    AS $$
DECLARE
    why CONSTANT text := hookwire.why_no_result(result);
BEGIN
    IF why IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = CASE WHEN octet_length(result::text) > 1048576 THEN 'HW003' ELSE '22023' END, MESSAGE = why,
            HINT = 'Store large content elsewhere and return a link.';
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION hookwire.complete_jobs(ids uuid[], claims bigint[], results jsonb[] DEFAULT NULL::jsonb[], extras jsonb[] DEFAULT NULL::jsonb[]) RETURNS SETOF uuid
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    held uuid[];
    given jsonb[];
    reviewed hookwire.jobs[];
    extra record;
BEGIN
    -- A shorter result has neither 65 levels nor 250 digits.
    IF EXISTS (SELECT FROM unnest(results) AS r WHERE octet_length(r::text) > 128 AND hookwire.why_no_result(r) IS NOT NULL) THEN
        given := results;
        results := ARRAY(SELECT CASE WHEN hookwire.why_no_result(g.result) IS NULL THEN g.result ELSE hookwire.cut_result(g.result) END
                         FROM unnest(given) WITH ORDINALITY AS g(result, place) ORDER BY g.place);
    END IF;
    IF (SELECT k.kind FROM hookwire.job_kinds k WHERE k.needs_review OR k.automation = 'assisted'
        ORDER BY k.automation, k.needs_review LIMIT 1) IS NULL THEN
        held := hookwire.end_jobs(ids, 'completed', results, claims => claims);
    ELSE
        held := hookwire.held_jobs(ids, claims);
        WITH policies AS MATERIALIZED (
            SELECT k.kind FROM (SELECT DISTINCT j.kind FROM hookwire.jobs j WHERE j.id = ANY (held)) AS k
            CROSS JOIN LATERAL hookwire.job_policy(k.kind) AS p WHERE p.needs_review OR p.automation = 'assisted'
        ), waiting AS (
            UPDATE hookwire.jobs j SET state = 'review', result = r.result, performer = j.worker, claim = NULL, lease_until = NULL,
                run_until = NULL, number = j.number + 1
            FROM unnest(ids, results) AS r(id, result)
            WHERE j.id = ANY (held) AND r.id = j.id AND j.kind IN (SELECT p.kind FROM policies p)
            RETURNING j AS job
        )
        SELECT coalesce(array_agg(w.job ORDER BY (w.job).seq), '{}') INTO reviewed FROM waiting w;
        PERFORM hookwire.announce_jobs(reviewed);
        IF cardinality(reviewed) < cardinality(held) THEN
            PERFORM hookwire.end_jobs(ARRAY(SELECT unnest(held) EXCEPT SELECT w.id FROM unnest(reviewed) AS w), 'completed', results,
                                      results_of => ids);
        END IF;
    END IF;
    IF extras IS NOT NULL THEN
        FOR extra IN SELECT x.id, x.extra FROM unnest(ids, extras) AS x(id, extra) WHERE x.id = ANY (held) AND x.extra IS NOT NULL LOOP
            PERFORM hookwire.publish_all(extra.extra->'events');
            PERFORM hookwire.add_jobs(coalesce(nullif(extra.extra->'jobs', 'null'), '[]'), 'job:' || extra.id);
            PERFORM hookwire.note_job(extra.id, 'result', 'hookwire', extra.extra->>'note') WHERE extra.extra->>'note' IS NOT NULL;
        END LOOP;
    END IF;
    IF given IS NOT NULL THEN
        PERFORM hookwire.note_job(g.id, 'result', 'hookwire', hookwire.why_no_result(g.result) || '; the beginning of its text is kept')
        FROM unnest(ids, given) AS g(id, result) WHERE g.id = ANY (held) AND hookwire.why_no_result(g.result) IS NOT NULL;
    END IF;
    RETURN QUERY SELECT unnest(held);
END
$$;
