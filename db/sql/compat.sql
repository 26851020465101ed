-- goharvest's table: mark, purge and reset in batches. db.statements.for_outbox replaces `compat_outbox` by the quoted
-- name of the table. Its columns are goharvest's, so we do not change them.
--
-- Any mark of another relay can be taken over: that is goharvest's failover. Every mark starts at the lowest id
-- again, so that it finds a row that commits late. Statements that decide take FOR KEY SHARE on the term's row.
-- A relay that has lost the leadership here then marks nothing more.

-- name: mark
-- $4: the relay's identity, a new one after each unknown outcome. Parked keys are skipped.
WITH mine AS MATERIALIZED (
    SELECT FROM hookwire.relay_terms WHERE sink = $1 AND grp = $2 AND term = $3 FOR KEY SHARE
), head AS MATERIALIZED (
    SELECT o.id FROM compat_outbox o
    WHERE EXISTS (SELECT FROM mine) AND o.leader_id IS DISTINCT FROM $4::uuid
      AND (SELECT p.record_id FROM hookwire.compat_parked p WHERE p.outbox = $1 AND p.key = o.kafka_key LIMIT 1) IS NULL
    ORDER BY o.id LIMIT $5
)
UPDATE compat_outbox o SET leader_id = $4::uuid WHERE o.id = ANY (ARRAY(SELECT head.id FROM head))
RETURNING o.id, o.kafka_topic, o.kafka_key, o.kafka_value, o.kafka_header_keys, o.kafka_header_values;

-- name: mark_due
-- Mark the first row of each parked key whose probe is due. For a row that is gone, return only the key.
WITH mine AS MATERIALIZED (
    SELECT FROM hookwire.relay_terms WHERE sink = $1 AND grp = $2 AND term = $3 FOR KEY SHARE
), due AS MATERIALIZED (
    SELECT p.key, p.record_id, p.attempts FROM hookwire.compat_parked p
    WHERE p.outbox = $1 AND EXISTS (SELECT FROM mine) AND p.probe_at <= clock_timestamp()
    ORDER BY p.probe_at LIMIT $5
), marked AS (
    UPDATE compat_outbox o SET leader_id = $4::uuid WHERE o.id = ANY (ARRAY(SELECT due.record_id FROM due))
    RETURNING o.id, o.kafka_topic, o.kafka_key, o.kafka_value, o.kafka_header_keys, o.kafka_header_values
)
SELECT due.key, due.attempts, m.id, m.kafka_topic, m.kafka_key, m.kafka_value, m.kafka_header_keys, m.kafka_header_values
FROM due LEFT JOIN marked m ON m.id = due.record_id ORDER BY due.record_id;

-- name: purge
-- Delete the rows that Kafka has confirmed, if they still carry one of the relay's marks. Return how many
-- stayed because another relay has marked them since.
WITH gone AS (
    DELETE FROM compat_outbox o WHERE o.id = ANY ($1::bigint[]) AND o.leader_id = ANY ($2::uuid[]) RETURNING o.id
)
SELECT count(*) FROM compat_outbox o
WHERE o.id = ANY ($1::bigint[]) AND o.leader_id IS NOT NULL AND o.leader_id <> ALL ($2::uuid[])
  AND NOT EXISTS (SELECT FROM gone WHERE gone.id = o.id);

-- name: reset
-- Free the rows that were marked and not sent, so that any relay may take them.
UPDATE compat_outbox o SET leader_id = NULL WHERE o.id = ANY ($1::bigint[]) AND o.leader_id = ANY ($2::uuid[]);

-- name: park
-- Park the keys whose record was refused. For a key that is parked already, double the wait, up to $9 seconds.
INSERT INTO hookwire.compat_parked AS p (outbox, key, record_id, topic, reason, detail, probe_at)
SELECT $1, r.key, r.id, r.topic, r.reason, r.detail, clock_timestamp() + make_interval(secs => $8::double precision)
FROM unnest($4::text[], $5::bigint[], $6::text[], $7::text[], $10::text[]) AS r(key, id, topic, reason, detail)
WHERE EXISTS (SELECT FROM (SELECT FROM hookwire.relay_terms t
                           WHERE t.sink = $1 AND t.grp = $2 AND t.term = $3 FOR KEY SHARE) AS mine)
ON CONFLICT (outbox, key) DO UPDATE
SET record_id = excluded.record_id, topic = excluded.topic, reason = excluded.reason, detail = excluded.detail,
    attempts = p.attempts + 1,
    probe_at = clock_timestamp() + make_interval(secs => least($8::double precision * 2 ^ least(p.attempts, 10), $9::double precision));

-- name: unpark
-- Unpark these keys, and probe keys that wait for the same topics now: the topic takes records again.
WITH freed AS (
    DELETE FROM hookwire.compat_parked p WHERE p.outbox = $1 AND p.key = ANY ($2::text[]) RETURNING p.topic
)
UPDATE hookwire.compat_parked p SET probe_at = clock_timestamp()
WHERE p.outbox = $1 AND p.topic IN (SELECT freed.topic FROM freed) AND p.key <> ALL ($2::text[]);

-- name: columns
-- Check that the outbox has its columns and may be read, also when it has no rows.
SELECT o.id, o.kafka_topic, o.kafka_key, o.kafka_value, o.kafka_header_keys, o.kafka_header_values, o.leader_id
FROM compat_outbox o LIMIT 0;

-- name: rights_missing
-- Return the missing rights on the outbox.
SELECT concat_ws(', ', CASE WHEN NOT has_column_privilege(t, 'leader_id', 'UPDATE') THEN 'UPDATE' END,
                       CASE WHEN NOT has_table_privilege(t, 'DELETE') THEN 'DELETE' END)
FROM to_regclass($1::text) AS t;

-- name: foreign_owner
-- Return the owner of the table, if triggers and policies of this role would run with rights that it lacks. They run as our
-- role, which may do everything in the schema of the hub.
SELECT o.rolname
FROM pg_class c JOIN pg_roles o ON o.oid = c.relowner CROSS JOIN pg_namespace n
WHERE c.oid = to_regclass($1::text) AND n.nspname = 'hookwire' AND pg_has_role(n.nspowner, 'USAGE')
  AND NOT pg_has_role(o.oid, n.nspowner, 'USAGE');

-- name: create_table
-- Create the table like goharvest's own script, for trials.
CREATE TABLE IF NOT EXISTS compat_outbox (
    id bigserial PRIMARY KEY,
    create_time timestamp with time zone NOT NULL,
    kafka_topic varchar(249) NOT NULL,
    kafka_key varchar(100) NOT NULL,
    kafka_value varchar(10000),
    kafka_header_keys text[] NOT NULL,
    kafka_header_values text[] NOT NULL,
    leader_id uuid
);

-- name: stash
-- Insert one row for each element, like goharvest's stasher. The headers are Seq and Run.
INSERT INTO compat_outbox (create_time, kafka_topic, kafka_key, kafka_value, kafka_header_keys, kafka_header_values)
SELECT now(), $1, r.key, r.value, ARRAY['Seq', 'Run'], ARRAY[r.seq::text, $5]
FROM unnest($2::text[], $3::text[], $4::bigint[]) WITH ORDINALITY AS r(key, value, seq, n) ORDER BY r.n;

-- name: pump_owed
-- Return the numbers of a run of `hookwire pump` that still wait in the table; it knows no record that was given up.
SELECT o.kafka_header_values[1]::bigint AS number, false AS is_given_up
FROM compat_outbox o WHERE o.kafka_topic = $1 AND o.kafka_header_values[2] = $2;
