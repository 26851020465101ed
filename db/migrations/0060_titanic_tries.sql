-- A request of Titanic is executed until it is answered or closed (TI-08): `tries_max` ends requests of HTTP and SQL alone
-- (docs/adr/0052-titanic-and-tries.md). A service that is not idempotent ends any request whose worker was lost (ID-07).

-- Gives a request back for another try after the delay. With a reason the try has failed, and the last one ends the request;
-- one of Titanic is tried once a minute from there on.
CREATE OR REPLACE FUNCTION hookwire.release_request(id uuid, claim bigint, delay_seconds double precision, why text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    moment CONSTANT timestamptz := clock_timestamp();
    found hookwire.requests;
    settings hookwire.services;
    is_spent boolean;
    pause double precision;
BEGIN
    SELECT r.* INTO found FROM hookwire.requests r
    WHERE r.id = release_request.id AND r.claim = release_request.claim AND r.state IN ('waiting', 'delayed', 'leased') FOR UPDATE;
    IF found.id IS NULL THEN
        RETURN 'stale';
    END IF;
    settings := hookwire.service_settings(found.service);
    is_spent := why IS NOT NULL AND found.attempts >= settings.tries_max;
    pause := CASE WHEN is_spent THEN greatest(delay_seconds, 60) ELSE delay_seconds END;
    found.state := CASE WHEN is_spent AND found.via <> 'zeromq' THEN 'failed' WHEN pause > 0 THEN 'delayed' ELSE 'waiting' END;
    UPDATE hookwire.requests r
    SET state = found.state, claim = NULL, last_error = left(why, 500),
        deadline_at = CASE found.state WHEN 'failed' THEN moment + make_interval(secs => settings.retention_seconds)
                                       WHEN 'delayed' THEN moment + make_interval(secs => pause) ELSE r.expires_at END
    WHERE r.id = found.id;
    RETURN found.state;
END
$$;

-- One bounded batch of what is due, the longest due first.
CREATE OR REPLACE FUNCTION hookwire.reap_requests(most integer) RETURNS TABLE (returned bigint, expired bigint, failed bigint, forgotten bigint)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    moment CONSTANT timestamptz := clock_timestamp();
    due CONSTANT uuid[] := ARRAY(
        SELECT r.id FROM hookwire.requests r WHERE r.deadline_at <= moment ORDER BY r.deadline_at LIMIT most FOR UPDATE SKIP LOCKED);
    over CONSTANT uuid[] := ARRAY(
        SELECT r.id FROM hookwire.requests r WHERE r.id = ANY (due) AND r.state IN ('answered', 'expired', 'failed'));
BEGIN
    IF due = '{}' THEN
        RETURN QUERY SELECT 0::bigint, 0::bigint, 0::bigint, 0::bigint;
        RETURN;
    END IF;
    RETURN QUERY
    WITH judged AS MATERIALIZED (
        SELECT r.id, CASE WHEN r.state = 'leased' AND (NOT p.idempotent OR r.attempts >= p.tries_max AND r.via <> 'zeromq') THEN 'failed'
                          WHEN r.expires_at <= moment THEN 'expired' ELSE 'waiting' END AS state,
               moment + make_interval(secs => p.retention_seconds) AS kept_until, r.state = 'leased' AS was_leased
        FROM hookwire.requests r, LATERAL hookwire.service_settings(r.service) AS p
        WHERE r.id = ANY (due) AND r.state IN ('waiting', 'delayed', 'leased')
    ), changed AS (
        UPDATE hookwire.requests r
        SET state = j.state, deadline_at = CASE WHEN j.state = 'waiting' THEN r.expires_at ELSE j.kept_until END,
            last_error = CASE WHEN j.was_leased THEN format('the lease of %s was over', coalesce(r.worker, 'a worker')) ELSE r.last_error END
        FROM judged j WHERE r.id = j.id RETURNING j.state
    )
    SELECT count(*) FILTER (WHERE c.state = 'waiting'), count(*) FILTER (WHERE c.state = 'expired'),
           count(*) FILTER (WHERE c.state = 'failed'), cardinality(over)::bigint
    FROM changed c;
    IF over <> '{}' THEN
        PERFORM hookwire.forget_requests(over, 'retention');
    END IF;
END
$$;
