-- SQL functions as all migrations together make them. Written by `make schema`, never by hand.

CREATE OR REPLACE FUNCTION hookwire.incident_notice(type text, incident hookwire.incidents)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
AS $function$
    SELECT jsonb_build_object(
        'type', type, 'about', jsonb_build_object('kind', 'incident', 'id', 'inc_' || incident.id), 'incident', 'inc_' || incident.id,
        'state', incident.state, 'sink', incident.sink, 'outcome', incident.outcome, 'status', incident.status)
        || coalesce((SELECT CASE WHEN s.topic NOT LIKE 'hookwire.%' THEN
                                jsonb_build_object('subscription_id', s.public_id, 'topic', s.topic, 'callback', s.callback) END
                     FROM hookwire.subscriptions s WHERE s.id = incident.subscription_id),
                    CASE WHEN incident.subscription_id IS NULL THEN '{}'::jsonb END)
$function$;
COMMENT ON FUNCTION hookwire.incident_notice(text,hookwire.incidents) IS
'The notice for operators about an incident. It has no words of the receiver. NULL: the receiver of notices fails itself.';
REVOKE EXECUTE ON FUNCTION hookwire.incident_notice(text,hookwire.incidents) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.note_incidents(subscriptions bigint[], fingerprints text[], outcomes text[], statuses smallint[], excerpts text[], events bigint[], most integer, OUT place integer, OUT incident_id bigint, OUT is_other boolean)
 RETURNS SETOF record
 LANGUAGE plpgsql
AS $function$
DECLARE
    one record;
    was_resolved boolean;
    kept bigint[];
BEGIN
    -- The events are locked, so that no erasure begins meanwhile. An excerpt of one that was erased is not stored.
    kept := ARRAY(
        SELECT y.id FROM (SELECT DISTINCT n AS id FROM unnest(events) AS n ORDER BY n) AS s
        CROSS JOIN LATERAL (
            SELECT x.id, x.erased_at FROM hookwire.events x WHERE x.id BETWEEN s.id AND s.id ORDER BY x.id LIMIT 1 FOR SHARE OF x
        ) AS y
        WHERE y.erased_at IS NULL);
    FOR one IN
        SELECT f.*, s.tenant
        FROM unnest(subscriptions, fingerprints, outcomes, statuses, excerpts, events) WITH ORDINALITY
            AS f(subscription_id, fingerprint, outcome, status, excerpt, event_id, n)
        JOIN hookwire.subscriptions s ON s.id = f.subscription_id
        ORDER BY f.subscription_id, f.n
    LOOP
        place := one.n;
        is_other := false;
        SELECT i.id, i.state = 'resolved' INTO incident_id, was_resolved FROM hookwire.incidents i
        WHERE i.subscription_id = one.subscription_id AND i.fingerprint = one.fingerprint;
        IF incident_id IS NULL OR was_resolved THEN
            -- One at a time for each subscription, so that no two processes pass the limit together.
            PERFORM pg_advisory_xact_lock(1215262580, hashint8(one.subscription_id));
            is_other := (
                SELECT count(*) FROM (
                    SELECT FROM hookwire.incidents i
                    WHERE i.subscription_id = one.subscription_id AND i.state <> 'resolved' AND i.kind = 'cause' LIMIT most) AS few
            ) >= most;
            INSERT INTO hookwire.incidents AS i (tenant, kind, subscription_id, sink, fingerprint, outcome, status, excerpt, first_event_id)
            VALUES (one.tenant, CASE WHEN is_other THEN 'other' ELSE 'cause' END, one.subscription_id, 'webhooks',
                    CASE WHEN is_other THEN 'other' ELSE one.fingerprint END, CASE WHEN is_other THEN 'other' ELSE one.outcome END,
                    CASE WHEN NOT is_other THEN one.status END, CASE WHEN NOT is_other AND one.event_id = ANY (kept) THEN one.excerpt ELSE '' END,
                    CASE WHEN NOT is_other THEN one.event_id END)
            ON CONFLICT DO NOTHING;
            SELECT i.id INTO incident_id FROM hookwire.incidents i
            WHERE i.subscription_id = one.subscription_id
              AND i.fingerprint = CASE WHEN is_other THEN 'other' ELSE one.fingerprint END;
        END IF;
        RETURN NEXT;
    END LOOP;
END $function$;
COMMENT ON FUNCTION hookwire.note_incidents(bigint[],text[],text[],smallint[],text[],bigint[],integer) IS
'Return the incident of each fingerprint, and make those that are new. A subscription has at most `most` unresolved ones
with a fingerprint of their own. Further failures are in its incident of the kind other. The excerpt is empty where its
event was erased.';
REVOKE EXECUTE ON FUNCTION hookwire.note_incidents(bigint[],text[],text[],smallint[],text[],bigint[],integer) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.watch_incidents(is_whole boolean, most integer DEFAULT 100)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
DECLARE
    kept CONSTANT interval := '2 hours';
    notices jsonb[] := '{}';
    more jsonb[];
BEGIN
    IF NOT pg_try_advisory_xact_lock(1215262580) THEN
        RETURN 0;
    END IF;

    -- Held records: one incident for each sink and reason.
    INSERT INTO hookwire.incidents AS i (tenant, kind, sink, fingerprint, outcome)
    SELECT DISTINCT h.tenant, 'held', h.sink, h.reason, h.reason FROM hookwire.holds h
    ON CONFLICT (tenant, sink, fingerprint) WHERE subscription_id IS NULL DO UPDATE
    SET last_at = now(), state = CASE i.state WHEN 'resolved' THEN 'open' ELSE i.state END,
        is_told = i.is_told AND i.state <> 'resolved',
        changed_at = CASE i.state WHEN 'resolved' THEN now() ELSE i.changed_at END,
        actor = CASE WHEN i.state <> 'resolved' THEN i.actor END, reason = CASE WHEN i.state <> 'resolved' THEN i.reason END;

    -- A failure after its end opens an incident again.
    UPDATE hookwire.incidents i
    SET state = 'open', is_told = false, changed_at = now(), actor = NULL, reason = NULL
    FROM (SELECT f.incident_id, max(f.last_at) AS last_at FROM hookwire.incident_failures f GROUP BY f.incident_id) AS f
    WHERE i.id = f.incident_id AND i.state = 'resolved' AND f.last_at > i.changed_at;

    -- Active: the rate of five minutes is above five times that of the hour before. It ends at the rate of that hour.
    WITH rate AS MATERIALIZED (
        SELECT i.id, i.is_active,
               coalesce(sum(f.failures) FILTER (WHERE f.minute > now() - interval '5 minutes'), 0) * 12 AS lately,
               coalesce(sum(f.failures) FILTER (WHERE f.minute <= now() - interval '5 minutes'), 0) AS before
        FROM hookwire.incidents i
        LEFT JOIN hookwire.incident_failures f
               ON f.incident_id = i.id AND f.minute > now() - interval '65 minutes' AND f.minute <= now()
        WHERE i.id IN (SELECT x.incident_id FROM hookwire.incident_failures x WHERE x.minute > now() - interval '5 minutes'
                       UNION SELECT y.id FROM hookwire.incidents y WHERE y.is_active)
        GROUP BY i.id
    ), turned AS (
        UPDATE hookwire.incidents i SET is_active = NOT i.is_active
        FROM (SELECT r.id FROM rate r
              WHERE CASE WHEN r.is_active THEN r.lately <= r.before ELSE r.lately > 5 * r.before END ORDER BY r.id LIMIT most) AS r
        WHERE i.id = r.id RETURNING i.*
    )
    SELECT coalesce(array_agg(hookwire.incident_notice(
               CASE WHEN t.is_active THEN 'incident.active' ELSE 'incident.quiet' END, ROW(t.*)::hookwire.incidents) ORDER BY t.id), '{}')
    INTO more FROM turned t WHERE t.kind <> 'before' AND t.state IN ('open', 'acknowledged');
    notices := notices || more;

    -- Nothing is held, or nothing is left and it was quiet for a day: it has ended by itself.
    WITH ended AS (
        UPDATE hookwire.incidents i SET state = 'resolved', changed_at = now(), actor = NULL, reason = NULL
        WHERE i.state <> 'resolved' AND i.kind = 'held'
          AND NOT EXISTS (SELECT FROM hookwire.holds h WHERE h.tenant = i.tenant AND h.sink = i.sink AND h.reason = i.outcome)
        RETURNING i.*
    )
    SELECT coalesce(array_agg(hookwire.incident_notice('incident.resolved', ROW(e.*)::hookwire.incidents) ORDER BY e.id), '{}')
    INTO more FROM ended e WHERE e.is_told;
    notices := notices || more;
    IF is_whole THEN
        WITH ended AS (
            UPDATE hookwire.incidents i SET state = 'resolved', changed_at = now(), actor = NULL, reason = NULL
            WHERE i.id IN (
                SELECT x.id FROM hookwire.incidents x
                WHERE x.state IN ('open', 'acknowledged') AND x.kind <> 'held' AND x.last_at < now() - interval '1 day'
                  AND NOT EXISTS (SELECT FROM hookwire.incident_failures f WHERE f.incident_id = x.id)
                  AND (SELECT d.incident_id FROM hookwire.deliveries d WHERE d.incident_id = x.id LIMIT 1) IS NULL
                  AND (SELECT l.incident_id FROM hookwire.dead_letters l WHERE l.incident_id = x.id LIMIT 1) IS NULL
                ORDER BY x.id LIMIT most)
            RETURNING i.*
        )
        SELECT coalesce(array_agg(hookwire.incident_notice('incident.resolved', ROW(e.*)::hookwire.incidents) ORDER BY e.id), '{}')
        INTO more FROM ended e WHERE e.is_told AND e.kind <> 'before';
        notices := notices || more;
        DELETE FROM hookwire.incidents i
        WHERE i.state IN ('resolved', 'ignored') AND i.last_at < now() - interval '30 days'
          AND i.changed_at < now() - interval '30 days'
          AND NOT EXISTS (SELECT FROM hookwire.incident_failures f WHERE f.incident_id = i.id)
          AND (SELECT d.incident_id FROM hookwire.deliveries d WHERE d.incident_id = i.id LIMIT 1) IS NULL
          AND (SELECT l.incident_id FROM hookwire.dead_letters l WHERE l.incident_id = i.id LIMIT 1) IS NULL;
    END IF;

    -- New ones, and those that were opened again.
    WITH told AS (
        UPDATE hookwire.incidents i SET is_told = true
        WHERE i.id IN (SELECT x.id FROM hookwire.incidents x WHERE NOT x.is_told ORDER BY x.id LIMIT most)
        RETURNING i.*
    )
    SELECT coalesce(array_agg(hookwire.incident_notice('incident.opened', ROW(t.*)::hookwire.incidents) ORDER BY t.id), '{}')
    INTO more FROM told t WHERE t.state = 'open' AND t.kind <> 'before';
    notices := notices || more;

    -- Old minutes, and minutes of a clock that was ahead, become part of the sum.
    WITH folded AS (
        DELETE FROM hookwire.incident_failures f
        WHERE f.minute < now() - kept OR f.minute > now() + kept RETURNING f.incident_id, f.failures, f.last_at
    )
    UPDATE hookwire.incidents i
    SET failures = i.failures + s.failures, last_at = greatest(i.last_at, least(s.last_at, now()))
    FROM (SELECT f.incident_id, sum(f.failures) AS failures, max(f.last_at) AS last_at FROM folded f GROUP BY f.incident_id) AS s
    WHERE i.id = s.incident_id;

    notices := array_remove(notices, NULL);
    PERFORM hookwire.tell_operators(notices);
    RETURN cardinality(notices);
END $function$;
COMMENT ON FUNCTION hookwire.watch_incidents(boolean,integer) IS
'Change the states of incidents that change by themselves, tell operators once of each change, and fold old minutes. One
process at a time. `is_whole`: also look for those of which nothing is left. Return the number of notices.';
REVOKE EXECUTE ON FUNCTION hookwire.watch_incidents(boolean,integer) FROM PUBLIC;
