-- Incidents: failures of deliveries and held records, grouped by their cause. A failing delivery and a dead letter have
-- the number of their incident. Failures are counted by minute, in the statement that stores them.

CREATE TABLE hookwire.incidents (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text NOT NULL,
    kind text NOT NULL DEFAULT 'cause' CHECK (kind IN ('cause', 'other', 'before', 'held')),
    subscription_id bigint,
    sink text NOT NULL,
    fingerprint text NOT NULL,
    outcome text NOT NULL,
    status smallint,
    excerpt text NOT NULL DEFAULT '',
    state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'acknowledged', 'resolved', 'ignored')),
    is_active boolean NOT NULL DEFAULT false,
    is_told boolean NOT NULL DEFAULT false,
    failures bigint NOT NULL DEFAULT 0,
    first_event_id bigint,
    first_at timestamptz NOT NULL DEFAULT now(),
    last_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now(),
    actor text,
    reason text,
    CHECK ((kind = 'held') = (subscription_id IS NULL))
);
CREATE UNIQUE INDEX incidents_cause ON hookwire.incidents (subscription_id, fingerprint) WHERE subscription_id IS NOT NULL;
CREATE UNIQUE INDEX incidents_held ON hookwire.incidents (tenant, sink, fingerprint) WHERE subscription_id IS NULL;
CREATE INDEX incidents_state ON hookwire.incidents (state, id);
CREATE INDEX incidents_active ON hookwire.incidents (id) WHERE is_active;
CREATE INDEX incidents_untold ON hookwire.incidents (id) WHERE NOT is_told;
CREATE INDEX incidents_first_event ON hookwire.incidents (first_event_id);
COMMENT ON TABLE hookwire.incidents IS 'Causes of failures: of the deliveries of a subscription, or of the held records of a sink.';
COMMENT ON COLUMN hookwire.incidents.kind IS 'cause: a fingerprint; other: those beyond the limit; before: what failed before incidents were known; held: held records.';
COMMENT ON COLUMN hookwire.incidents.subscription_id IS 'The subscription that fails; NULL: records are held.';
COMMENT ON COLUMN hookwire.incidents.sink IS 'webhooks, or the sink that holds records.';
COMMENT ON COLUMN hookwire.incidents.fingerprint IS 'A digest of class, status and excerpt, or a word for a kind.';
COMMENT ON COLUMN hookwire.incidents.outcome IS 'The class of the outcome, or the reason of the holds.';
COMMENT ON COLUMN hookwire.incidents.status IS 'The status of the answer.';
COMMENT ON COLUMN hookwire.incidents.excerpt IS 'The beginning of the answer without what differs each time.';
COMMENT ON COLUMN hookwire.incidents.is_active IS 'Whether the rate of five minutes is above five times that of the hour before.';
COMMENT ON COLUMN hookwire.incidents.is_told IS 'Whether operators got a notice that it is open.';
COMMENT ON COLUMN hookwire.incidents.failures IS 'Failed attempts, without those that incident_failures still has.';
COMMENT ON COLUMN hookwire.incidents.first_event_id IS 'The event whose answer gave the excerpt; an erasure of it empties the excerpt.';
COMMENT ON COLUMN hookwire.incidents.first_at IS 'When it began.';
COMMENT ON COLUMN hookwire.incidents.last_at IS 'Its last failure, without those that incident_failures still has.';
COMMENT ON COLUMN hookwire.incidents.reason IS 'Why it got its state, in the words of the actor.';
COMMENT ON COLUMN hookwire.incidents.changed_at IS 'When it got its state.';
COMMENT ON COLUMN hookwire.incidents.actor IS 'Who gave it its state; NULL: the hub.';

CREATE TABLE hookwire.incident_failures (
    incident_id bigint NOT NULL,
    minute timestamptz NOT NULL,
    tenant text NOT NULL,
    failures integer NOT NULL,
    last_at timestamptz NOT NULL,
    PRIMARY KEY (incident_id, minute)
);
COMMENT ON TABLE hookwire.incident_failures IS 'Failed attempts of an incident by minute; folded into incidents after two hours.';
COMMENT ON COLUMN hookwire.incident_failures.incident_id IS 'The incident. None is deleted while it has such rows.';
COMMENT ON COLUMN hookwire.incident_failures.minute IS 'The minute of the database''s clock in which they were stored.';
COMMENT ON COLUMN hookwire.incident_failures.failures IS 'The number of failed attempts.';
COMMENT ON COLUMN hookwire.incident_failures.last_at IS 'When the last of them was stored.';

CREATE FUNCTION hookwire.note_incidents(
    subscriptions bigint[], fingerprints text[], outcomes text[], statuses smallint[], excerpts text[], events bigint[],
    most integer, OUT place integer, OUT incident_id bigint, OUT is_other boolean) RETURNS SETOF record
LANGUAGE plpgsql AS $$
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
END $$;
COMMENT ON FUNCTION hookwire.note_incidents(bigint[], text[], text[], smallint[], text[], bigint[], integer) IS
'Return the incident of each fingerprint, and make those that are new. A subscription has at most `most` unresolved ones
with a fingerprint of their own. Further failures are in its incident of the kind other. The excerpt is empty where its
event was erased.';
REVOKE EXECUTE ON FUNCTION hookwire.note_incidents(bigint[], text[], text[], smallint[], text[], bigint[], integer) FROM PUBLIC;

CREATE FUNCTION hookwire.incident_notice(type text, incident hookwire.incidents) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'type', type, 'about', jsonb_build_object('kind', 'incident', 'id', 'inc_' || incident.id), 'incident', 'inc_' || incident.id,
        'state', incident.state, 'sink', incident.sink, 'outcome', incident.outcome, 'status', incident.status)
        || coalesce((SELECT CASE WHEN s.topic NOT LIKE 'hookwire.%' THEN
                                jsonb_build_object('subscription_id', s.public_id, 'topic', s.topic, 'callback', s.callback) END
                     FROM hookwire.subscriptions s WHERE s.id = incident.subscription_id),
                    CASE WHEN incident.subscription_id IS NULL THEN '{}'::jsonb END)
$$;
COMMENT ON FUNCTION hookwire.incident_notice(text, hookwire.incidents) IS
'The notice for operators about an incident. It has no words of the receiver. NULL: the receiver of notices fails itself.';
REVOKE EXECUTE ON FUNCTION hookwire.incident_notice(text, hookwire.incidents) FROM PUBLIC;

CREATE FUNCTION hookwire.watch_incidents(is_whole boolean, most integer DEFAULT 100) RETURNS integer
LANGUAGE plpgsql AS $$
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
END $$;
COMMENT ON FUNCTION hookwire.watch_incidents(boolean, integer) IS
'Change the states of incidents that change by themselves, tell operators once of each change, and fold old minutes. One
process at a time. `is_whole`: also look for those of which nothing is left. Return the number of notices.';
REVOKE EXECUTE ON FUNCTION hookwire.watch_incidents(boolean, integer) FROM PUBLIC;

-- A rule for the new sequence.

CREATE OR REPLACE FUNCTION hookwire.numbers(OUT sequence text, OUT last bigint, OUT used bigint, OUT most bigint)
 RETURNS SETOF record
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
    SELECT s.sequencename::text, coalesce(s.last_value, 0),
           CASE WHEN r.sequence IS NOT NULL THEN greatest(r.used, m.last_number, 0) END, s.max_value
    FROM pg_sequences s
    LEFT JOIN (
        SELECT 'event_id' AS sequence, greatest(
            (SELECT max(e.id) FROM hookwire.events e), (SELECT max(a.event_id) FROM hookwire.attempts a),
            (SELECT max(d.event_id) FROM hookwire.deliveries d), (SELECT max(l.event_id) FROM hookwire.dead_letters l),
            (SELECT max(l.event_id) FROM hookwire.relay_dead_letters l), (SELECT max(c.event_id) FROM hookwire.fanout_cursors c),
            (SELECT max(o.id) FROM hookwire.sinks k CROSS JOIN generate_series(0, 63) AS g(shard) CROSS JOIN LATERAL (
                 SELECT x.id FROM hookwire.outbox x WHERE x.sink = k.name AND x.shard = g.shard ORDER BY x.id DESC LIMIT 1) AS o),
            (SELECT max(h.id) FROM hookwire.sinks k CROSS JOIN LATERAL (
                 SELECT x.id FROM hookwire.held x WHERE x.sink = k.name ORDER BY x.id DESC LIMIT 1) AS h),
            (SELECT max(k.event_id) FROM (SELECT x.event_id FROM hookwire.idempotency_keys x ORDER BY x.accepted_at DESC LIMIT 10) AS k),
            (SELECT max(n) FROM (SELECT x.ids FROM hookwire.ledger_entries x ORDER BY x.id DESC LIMIT 10) AS e CROSS JOIN unnest(e.ids) AS n),
            (SELECT max(greatest(x.owed_max, x.settled_max))
             FROM (SELECT y.owed_max, y.settled_max FROM hookwire.ledger y ORDER BY y.hour DESC LIMIT 10) AS x),
            (SELECT greatest(c.through_id, c.mark_id) FROM hookwire.ledger_cursor c),
            -- Events that a replay names may never have existed.
            (SELECT max(nullif(r.upper_event_id, 1))
             FROM (SELECT x.upper_event_id, x.event_ids FROM hookwire.replays x ORDER BY x.id DESC LIMIT 10) AS r WHERE r.event_ids IS NULL),
            (SELECT max(nullif(w.last_id, 1)) FROM (SELECT x.last_id FROM hookwire.id_watermarks x ORDER BY x.day DESC LIMIT 31) AS w)
        ) AS used
        UNION ALL SELECT 'message_id', greatest(
            (SELECT max(m.id) FROM hookwire.messages m), (SELECT max(d.id) FROM hookwire.dead_messages d))
        UNION ALL SELECT 'request_number', (SELECT max(r.number) FROM hookwire.requests r)
        UNION ALL SELECT 'delivery_fence', (SELECT max(d.fence) FROM (
            SELECT x.fence FROM hookwire.deliveries x WHERE x.attempts > 0 AND x.fence IS NOT NULL AND x.parked_at IS NULL
            ORDER BY x.event_id DESC, x.subscription_id DESC LIMIT 10) AS d)
        UNION ALL SELECT 'lease_fence', greatest(
            (SELECT max(m.claim) FROM (SELECT x.claim FROM hookwire.messages x WHERE x.claim IS NOT NULL ORDER BY x.lease_until DESC LIMIT 10) AS m),
            (SELECT max(t.claim) FROM (SELECT x.claim FROM hookwire.task_rows x WHERE x.start_time IS NOT NULL ORDER BY x.lease_until DESC LIMIT 10) AS t),
            (SELECT max(j.claim) FROM (SELECT x.claim FROM hookwire.jobs x WHERE x.state = 'running' ORDER BY x.lease_until DESC LIMIT 10) AS j),
            (SELECT max(r.claim) FROM (SELECT x.claim FROM hookwire.requests x ORDER BY x.number DESC LIMIT 10) AS r))
        UNION ALL SELECT 'api_keys_id_seq', (SELECT max(k.id) FROM hookwire.api_keys k)
        UNION ALL SELECT 'audit_id_seq', (SELECT max(a.id) FROM hookwire.audit a)
        UNION ALL SELECT 'dead_tasks_number_seq', (SELECT max(d.number) FROM hookwire.dead_tasks d)
        UNION ALL SELECT 'former_audiences_number_seq', NULL
        UNION ALL SELECT 'holds_id_seq', (SELECT max(h.id) FROM hookwire.holds h)
        UNION ALL SELECT 'incidents_id_seq', (SELECT max(i.id) FROM hookwire.incidents i)
        UNION ALL SELECT 'intents_id_seq', (SELECT max(i.id) FROM hookwire.intents i)
        UNION ALL SELECT 'job_requests_number_seq', (SELECT max(r.number) FROM hookwire.job_requests r)
        UNION ALL SELECT 'jobs_seq_seq', greatest(
            (SELECT max(j.seq) FROM hookwire.jobs j), (SELECT max(a.seq) FROM hookwire.job_archive a))
        UNION ALL SELECT 'ledger_entries_id_seq', (SELECT max(e.id) FROM hookwire.ledger_entries e)
        UNION ALL SELECT 'queues_id_seq', (SELECT max(q.id) FROM hookwire.queues q)
        UNION ALL SELECT 'rabbithub_resources_id_seq', (SELECT max(r.id) FROM hookwire.rabbithub_resources r)
        UNION ALL SELECT 'relay_members_id_seq', greatest(
            (SELECT max(m.id) FROM hookwire.relay_members m), (SELECT max(t.member) FROM hookwire.relay_terms t))
        UNION ALL SELECT 'replays_id_seq', (SELECT max(r.id) FROM hookwire.replays r)
        UNION ALL SELECT 'services_id_seq', (SELECT max(v.id) FROM hookwire.services v)
        UNION ALL SELECT 'source_refusals_id_seq', (SELECT max(r.id) FROM hookwire.source_refusals r)
        UNION ALL SELECT 'subscriptions_id_seq', greatest(
            (SELECT max(x.id) FROM hookwire.subscriptions x), (SELECT max(a.subscription_id) FROM hookwire.attempts a),
            (SELECT max(d.subscription_id) FROM hookwire.deliveries d), (SELECT max(l.subscription_id) FROM hookwire.dead_letters l),
            (SELECT max(f.subscription_id) FROM hookwire.delivery_failures f), (SELECT max(g.subscription_id) FROM hookwire.delivery_gates g),
            (SELECT max(f.subscription_id) FROM hookwire.former_audiences f))
        UNION ALL SELECT 'task_rows_seq_seq', greatest(
            (SELECT max(t.seq) FROM (SELECT x.seq FROM hookwire.task_rows x WHERE x.start_time IS NOT NULL ORDER BY x.lease_until DESC LIMIT 10) AS t),
            (SELECT max(t.seq) FROM (SELECT x.seq FROM hookwire.task_rows x WHERE x.due_at IS NOT NULL ORDER BY x.due_at DESC LIMIT 10) AS t))
    ) AS r ON r.sequence = s.sequencename
    LEFT JOIN hookwire.number_marks m ON m.sequence = s.sequencename
    WHERE s.schemaname = 'hookwire' AND s.sequencename <> 'horizon'
$function$;
COMMENT ON FUNCTION hookwire.numbers() IS
'Return each sequence, its last number, and the greatest number that is in use or was used. NULL: there is no rule. A
sequence that never drew a number has the value 1.';
REVOKE EXECUTE ON FUNCTION hookwire.numbers() FROM PUBLIC;
