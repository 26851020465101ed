-- Erasure: the contents of events go, from every table of the hub that has them. Rows, ids, order and ledger stay.

-- name: choose
-- Choose up to $5 events of the topic $2 and the key $3 above the event $4, lowest id first. Lock them: a replay that
-- is making deliveries of them ends first.
SELECT e.id, e.topic FROM hookwire.events e
WHERE e.tenant = $1 AND e.key = $3 AND e.id > $4 AND e.topic = $2
ORDER BY e.id LIMIT $5
FOR NO KEY UPDATE;

-- name: choose_ids
-- Choose the events $2, which are in order, and lock them as `choose` does.
SELECT e.id, e.topic FROM unnest($2::bigint[]) AS i(id)
CROSS JOIN LATERAL (
    SELECT x.id, x.topic FROM hookwire.events x WHERE x.tenant = $1 AND x.id BETWEEN i.id AND i.id ORDER BY x.id LIMIT 1
    FOR NO KEY UPDATE OF x
) AS e;

-- name: find_subject
-- Read up to $5 events above the event $2, lowest id first: of the topic $4, or of all if it is NULL. Return the first $6
-- ids whose CloudEvents subject is $3. No index finds them. Return the number of events read, too. Return the last event
-- read, or NULL if it was the newest. `unread` is the greatest number of events that are still to be read.
WITH seen AS MATERIALIZED (
    SELECT * FROM (
        SELECT x.id, x.headers->>'ce-subject' IS NOT DISTINCT FROM $3 AS is_theirs FROM hookwire.events x
        WHERE $4::text IS NOT NULL AND x.tenant = $1 AND x.topic = $4 AND x.id > $2 ORDER BY x.id LIMIT $5
    ) AS of_topic
    UNION ALL
    SELECT * FROM (
        SELECT x.id, x.headers->>'ce-subject' IS NOT DISTINCT FROM $3 FROM hookwire.events x
        WHERE $4::text IS NULL AND x.tenant || '' = $1 AND x.id > $2 ORDER BY x.id LIMIT $5
    ) AS of_all
), theirs AS MATERIALIZED (
    SELECT s.id FROM seen s WHERE s.is_theirs ORDER BY s.id LIMIT $6
), step AS (
    SELECT CASE WHEN (SELECT count(*) FROM theirs) = $6 THEN (SELECT max(t.id) FROM theirs t) ELSE (SELECT max(s.id) FROM seen s) END AS last_id,
           (SELECT count(*) FROM theirs) = $6 OR (SELECT count(*) FROM seen) = $5 AS has_more
)
SELECT ARRAY(SELECT t.id FROM theirs t ORDER BY t.id) AS ids, (SELECT count(*) FROM seen s WHERE s.id <= p.last_id) AS examined,
       CASE WHEN p.has_more THEN p.last_id END AS last_id,
       CASE WHEN p.has_more
            THEN greatest(0, (SELECT e.id FROM hookwire.events e WHERE e.tenant || '' = $1 ORDER BY e.id DESC LIMIT 1) - p.last_id)
            ELSE 0 END AS unread
FROM step p;

-- name: judge
-- Return what each of the events $1 still has: contents, sinks that wait for it, open deliveries, live jobs. $2 is the
-- incarnation of the ids in the arguments of jobs.
SELECT e.id, e.erased_at IS NOT NULL AS is_erased, e.sinks,
       EXISTS (SELECT FROM unnest(e.sinks) AS s(sink), generate_series(0, 63) AS g(shard) CROSS JOIN LATERAL (
                   SELECT FROM hookwire.outbox o WHERE o.sink = s.sink AND o.shard = g.shard AND o.id = e.id LIMIT 1) AS owed)
       OR EXISTS (SELECT FROM unnest(e.sinks) AS s(sink) CROSS JOIN LATERAL (
                      SELECT FROM hookwire.held h WHERE h.sink = s.sink AND h.id BETWEEN e.id AND e.id ORDER BY h.id LIMIT 1) AS held)
       OR EXISTS (SELECT FROM hookwire.fanout_cursors c WHERE c.event_id = e.id) AS is_unsent,
       (SELECT count(*) FROM (SELECT FROM hookwire.deliveries x WHERE x.event_id = ANY (ARRAY[e.id])
                              ORDER BY x.event_id, x.subscription_id) AS d) AS deliveries,
       coalesce(j.count, 0) AS jobs
FROM unnest($1::bigint[]) AS i(id)
CROSS JOIN LATERAL (
    SELECT x.id, x.sinks, x.erased_at FROM hookwire.events x WHERE x.id BETWEEN i.id AND i.id ORDER BY x.id LIMIT 1
) AS e
LEFT JOIN (
    SELECT x.args->>'event_id' AS event_id, count(*) AS count FROM hookwire.jobs x
    WHERE x.created_by = 'topic' AND x.args->>'event_id' = ANY (ARRAY(SELECT hookwire.event_name(n.id, $2::text) FROM unnest($1::bigint[]) AS n(id)))
    GROUP BY 1
) AS j ON j.event_id = hookwire.event_name(e.id, $2::text)
ORDER BY e.id;

-- name: count
-- Count what an erasure of the events $1 would empty besides them. $2 is the incarnation.
SELECT (SELECT count(*) FROM hookwire.attempts a WHERE a.event_id = ANY ($1::bigint[])
        AND (a.response_body IS NOT NULL OR a.response_headers IS NOT NULL OR a.detail IS NOT NULL)) AS attempts,
       (SELECT count(*) FROM hookwire.job_archive j WHERE j.created_by = 'topic' AND j.args->>'event_id' = ANY (
            ARRAY(SELECT hookwire.event_name(n.id, $2::text) FROM unnest($1::bigint[]) AS n(id)))) AS jobs,
       (SELECT count(DISTINCT a.subscription_id) FROM hookwire.attempts a WHERE a.event_id = ANY ($1::bigint[])) AS receivers;

-- name: end_deliveries
-- End the open deliveries of the events $1: they become dead letters of the kind `erased`. A worker that is sending one
-- finds its claim gone. Return the lanes that they were in, for promote_lanes.
WITH locked AS MATERIALIZED (
    SELECT d.place FROM unnest($1::bigint[]) AS i(id) CROSS JOIN LATERAL (
        SELECT x.ctid AS place FROM hookwire.deliveries x WHERE x.event_id = ANY (ARRAY[i.id])
        ORDER BY x.event_id, x.subscription_id FOR UPDATE OF x
    ) AS d
), gone AS (
    DELETE FROM hookwire.deliveries WHERE ctid = ANY (ARRAY(SELECT l.place FROM locked l)) RETURNING *
), buried AS (
    INSERT INTO hookwire.dead_letters (event_id, subscription_id, tenant, kind, attempts, last_status, last_outcome, on_purpose)
    SELECT g.event_id, g.subscription_id, g.tenant, 'erased', g.attempts, g.last_status, g.last_outcome, true FROM gone g
    ON CONFLICT (event_id, subscription_id) DO UPDATE SET kind = excluded.kind, on_purpose = true
)
SELECT DISTINCT g.subscription_id, g.lane FROM gone g WHERE g.lane IS NOT NULL;

-- name: promote_lanes
-- Make the heads of these lanes due, after `end_deliveries`: subscriptions $1, lanes $2.
UPDATE hookwire.deliveries SET due_at = now()
WHERE ctid = ANY (ARRAY(
    SELECT h.place FROM unnest($1::bigint[], $2::text[]) AS l(subscription_id, lane) CROSS JOIN LATERAL (
        SELECT x.ctid AS place, x.due_at, x.parked_at FROM hookwire.deliveries x
        WHERE x.subscription_id = l.subscription_id AND x.lane = l.lane ORDER BY x.event_id LIMIT 1 FOR UPDATE OF x
    ) AS h
    WHERE NOT isfinite(h.due_at) AND h.parked_at IS NULL));

-- name: empty_jobs
-- Empty the live jobs that were made from the events $1, so that their end announces nothing of them. $2 is the
-- incarnation.
UPDATE hookwire.jobs j
SET args = jsonb_build_object('event_id', j.args->'event_id', 'is_erased', true), result = NULL, resumed = NULL, errors = '[]',
    progress_note = NULL
WHERE j.created_by = 'topic' AND j.args->>'event_id' = ANY (
    ARRAY(SELECT hookwire.event_name(n.id, $2::text) FROM unnest($1::bigint[]) AS n(id)));

-- name: end_jobs
-- Cancel the live jobs that were made from the events $1, after `empty_jobs`; $2 is the incarnation, $3 the person.
SELECT coalesce(cardinality(hookwire.end_jobs(
    ARRAY(SELECT x.id FROM hookwire.jobs x
          WHERE x.created_by = 'topic' AND x.args->>'event_id' = ANY (
              ARRAY(SELECT hookwire.event_name(n.id, $2::text) FROM unnest($1::bigint[]) AS n(id)))),
    'cancelled', why => 'its event was erased', actor => $3)), 0);

-- name: erase
-- Erase the contents of the events $1, after `end_deliveries` and `end_jobs`. $2 is the incarnation. $3 says whether keys
-- are replaced by their digests. The hash of the former contents stays, for the ledger and the audit. An idempotency
-- key stays too, so that a late repeat does not bring the event back; its fingerprint fits no content any more.
WITH remembered AS (
    INSERT INTO hookwire.erased_events (event_id, tenant, content, erased_at)
    SELECT e.id, e.tenant, hookwire.content_hash(e.id, e.accepted_at, e.ordered, e.key, e.content_type, e.headers, e.payload),
           clock_timestamp()
    FROM hookwire.events e WHERE e.id = ANY ($1::bigint[]) AND e.erased_at IS NULL
    ON CONFLICT (event_id) DO UPDATE SET content = excluded.content, erased_at = excluded.erased_at
        WHERE erased_events.erased_at IS NULL -- the lake has erased it before
), emptied AS (
    UPDATE hookwire.events e
    SET payload = '', headers = '{}', content_type = NULL, erased_at = coalesce(e.erased_at, clock_timestamp()),
        key = CASE WHEN $3 AND e.key !~ '^sha256:[0-9a-f]{64}$'
                   THEN 'sha256:' || encode(hookwire.key_digest(e.topic, e.key), 'hex') ELSE e.key END
    WHERE e.id = ANY ($1::bigint[])
    RETURNING e.id, e.accepted_at
), answers AS (
    UPDATE hookwire.attempts a SET response_headers = NULL, response_body = NULL, detail = NULL
    WHERE a.event_id = ANY ($1::bigint[])
      AND (a.response_body IS NOT NULL OR a.response_headers IS NOT NULL OR a.detail IS NOT NULL)
    RETURNING 1
), letters AS (
    UPDATE hookwire.dead_letters l SET detail = NULL WHERE l.event_id = ANY ($1::bigint[]) AND l.detail IS NOT NULL
), causes AS (
    UPDATE hookwire.incidents i SET excerpt = '' WHERE i.first_event_id = ANY ($1::bigint[]) AND i.excerpt <> ''
), records AS (
    UPDATE hookwire.relay_dead_letters l
    SET detail = '', key = CASE WHEN $3 AND l.key !~ '^sha256:[0-9a-f]{64}$'
                                THEN 'sha256:' || encode(hookwire.key_digest(l.topic, l.key), 'hex') ELSE l.key END
    WHERE l.event_id = ANY ($1::bigint[])
), repeats AS (
    UPDATE hookwire.idempotency_keys k SET fingerprint = sha256(uuid_send(gen_random_uuid()))
    WHERE k.accepted_at >= (SELECT min(x.accepted_at) FROM emptied x) AND k.accepted_at <= (SELECT max(x.accepted_at) FROM emptied x)
      AND k.event_id = ANY ($1::bigint[])
), archived AS (
    UPDATE hookwire.job_archive j
    SET args = jsonb_build_object('event_id', j.args->'event_id', 'is_erased', true), key = '', uniq = NULL, result = NULL,
        errors = '[]', reason = NULL
    WHERE j.created_by = 'topic' AND j.args->>'event_id' = ANY (
        ARRAY(SELECT hookwire.event_name(n.id, $2::text) FROM unnest($1::bigint[]) AS n(id)))
    RETURNING 1
), rates AS (
    -- The same snapshot: the archive still has the keys.
    DELETE FROM hookwire.job_rates r USING hookwire.job_archive j
    WHERE $3 AND j.created_by = 'topic' AND j.args->>'event_id' = ANY (
              ARRAY(SELECT hookwire.event_name(n.id, $2::text) FROM unnest($1::bigint[]) AS n(id)))
      AND r.kind = j.kind AND r.key = j.key AND j.key <> ''
)
SELECT (SELECT count(*) FROM emptied) AS events, (SELECT count(*) FROM answers) AS attempts, (SELECT count(*) FROM archived) AS jobs;

-- name: audit
INSERT INTO hookwire.audit (tenant, actor, action, subject, reason, records) VALUES ($1, $2, 'event.erase', $3, $4, $5);

-- name: tables
-- Return the tables with freed bytes: the partitions of events that were erased and not rewritten since, and the other
-- tables that an erasure empties. Return the size of each in bytes, and what waits while it is rewritten.
WITH freed AS MATERIALIZED (
    SELECT x.event_id FROM hookwire.erased_events x WHERE x.erased_at IS NOT NULL AND x.rewritten_at IS NULL
), bound AS (
    SELECT c.oid, p.relname AS parent, pg_get_expr(c.relpartbound, c.oid) AS bound
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent
    WHERE i.inhparent IN ('hookwire.events'::regclass, 'hookwire.attempts'::regclass) AND NOT i.inhdetachpending
), chosen AS (
    SELECT b.oid, b.parent = 'events' AS has_events FROM bound b
    WHERE EXISTS (SELECT FROM freed f WHERE f.event_id >= substring(b.bound FROM 'FROM \(''(\d+)''\)')::bigint
                                        AND f.event_id < substring(b.bound FROM 'TO \(''(\d+)''\)')::bigint)
    UNION ALL
    SELECT c.oid, false FROM pg_class c
    WHERE c.relnamespace = 'hookwire'::regnamespace AND EXISTS (SELECT FROM freed)
      AND c.relname IN ('dead_letters', 'deliveries', 'held', 'holds', 'idempotency_keys', 'incidents', 'job_archive', 'job_rates', 'job_requests', 'jobs',
                        'relay_dead_letters')
)
SELECT 'hookwire.' || c.relname AS name, pg_total_relation_size(c.oid) AS bytes, h.has_events,
       pg_has_role(d.datdba, 'USAGE') AS owns_statistics
FROM chosen h JOIN pg_class c ON c.oid = h.oid CROSS JOIN pg_database d
WHERE d.datname = current_database() ORDER BY c.relname;

-- name: begin_rewrite
-- Return the number of events that were erased and not rewritten since, the time, and a new transaction id.
SELECT (SELECT count(*) FROM hookwire.erased_events x WHERE x.erased_at IS NOT NULL AND x.rewritten_at IS NULL) AS events, clock_timestamp() AS at,
       pg_current_xact_id()::text AS xid;

-- name: old_readers
-- Return what may still read rows of before the transaction $1. A rewrite would keep them for it.
SELECT coalesce(nullif(a.application_name, ''), a.backend_type) || ' (process ' || a.pid || ')' AS name FROM pg_stat_activity a
WHERE (a.datname = current_database() OR a.datid IS NULL) AND a.pid <> pg_backend_pid()
  AND greatest(age(a.backend_xmin), age(a.backend_xid)) > age($1::text::xid8::xid)
UNION ALL
SELECT 'prepared transaction ' || p.gid FROM pg_prepared_xacts p
WHERE p.database = current_database() AND age(p.transaction) > age($1::text::xid8::xid)
UNION ALL
SELECT 'replication slot ' || r.slot_name FROM pg_replication_slots r WHERE age(r.xmin) > age($1::text::xid8::xid)
LIMIT 5;

-- name: analyze
-- Make the statistics of the partitioned tables anew: they hold samples of values.
ANALYZE hookwire.events, hookwire.attempts;

-- name: rewrite_statistics
-- Write the catalog of statistics into a new file. Only the owner of the database may do this.
VACUUM (FULL) pg_catalog.pg_statistic;

-- name: rewritten
-- Note that the files of all events that were erased before the moment $1 are rewritten.
UPDATE hookwire.erased_events SET rewritten_at = clock_timestamp() WHERE rewritten_at IS NULL AND erased_at < $1;

-- name: forget
-- Read up to $3 erased events above $1, up to $2, and forget those whose event retention has removed. One that the lake
-- has erased is kept as long as the ledger, which the audit compares with the lake. Where there is a lake, one that only the
-- hub has erased is kept. The lake may still have its contents, and a backfill must not send them. $4 is NULL.
WITH seen AS MATERIALIZED (
    SELECT x.event_id FROM hookwire.erased_events x
    WHERE x.event_id > $1 AND x.event_id <= $2 AND $4::integer IS NULL ORDER BY x.event_id LIMIT $3
), gone AS (
    DELETE FROM hookwire.erased_events x USING seen s
    WHERE x.event_id = s.event_id
      AND (x.lake_at < now() - hookwire.ledger_kept() OR (x.lake_at IS NULL AND NOT EXISTS (SELECT FROM hookwire.lake_marks)))
      AND NOT EXISTS (SELECT FROM hookwire.events e WHERE e.id = s.event_id)
    RETURNING x.event_id
)
SELECT (SELECT max(event_id) FROM seen) AS last_id, (SELECT count(*) FROM seen) AS examined, (SELECT count(*) FROM gone) AS purged;

-- name: confirm_lake
-- Note that the lake has erased the events $2 of the tenant $1.
INSERT INTO hookwire.erased_events (event_id, tenant, lake_at)
SELECT DISTINCT i.id, $1, clock_timestamp() FROM unnest($2::bigint[]) AS i(id)
ON CONFLICT (event_id) DO UPDATE SET lake_at = excluded.lake_at WHERE erased_events.lake_at IS NULL;

-- name: unconfirmed
-- Return those of the events $1 of which the database knows no erasure, and whether it still has their contents.
SELECT i.id, EXISTS (SELECT FROM hookwire.events e WHERE e.id = i.id AND e.erased_at IS NULL) AS is_kept
FROM unnest($1::bigint[]) AS i(id)
WHERE NOT EXISTS (SELECT FROM hookwire.erased_events x WHERE x.event_id = i.id)
ORDER BY i.id;

-- name: known
-- Return up to $3 erased events above $1, up to $2, lowest id first, and whether the lake has erased them too.
SELECT x.event_id, x.lake_at IS NOT NULL AS is_of_lake FROM hookwire.erased_events x
WHERE x.event_id > $1 AND x.event_id <= $2 ORDER BY x.event_id LIMIT $3;
