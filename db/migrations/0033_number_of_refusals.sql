-- The numbers of refused records have a rule, as all sequences.

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
