-- Anybody's outbox table: claim, purge and park in batches. db.statements.for_mapped replaces the words that begin with
-- "mapped" by the table and by the expressions of its mapping. Nothing is added to the table itself.
--
-- There is no mark: a term has one batch in flight, so reading is the claim. Each claim begins at the lowest row again,
-- so it finds a row that commits late. What takes rows away takes FOR KEY SHARE on the term's row, so a relay that has
-- lost the leadership takes none.

-- name: claim
-- Return the first rows that wait, without those of parked keys. A row without a key is parked by "#" and its id. What
-- has more than 1,000 bytes is parked by its hash.
SELECT r.row_id::text AS row_id, r.topic, r.key, r.payload, r.headers, r.content_type
FROM (SELECT mapped_id AS row_id, mapped_topic AS topic, mapped_key AS key, mapped_payload AS payload,
             mapped_headers AS headers, mapped_content_type AS content_type, mapped_order AS place
      FROM mapped_table WHERE mapped_waits) AS r
WHERE EXISTS (SELECT FROM hookwire.relay_terms t WHERE t.sink = $1 AND t.grp = $2 AND t.term = $3)
  AND (SELECT p.record_id FROM hookwire.compat_parked p
       WHERE p.outbox = $1 AND p.key = CASE
           WHEN octet_length(coalesce(r.key, '#' || r.row_id::text)) > 1000
           THEN 'sha256:' || encode(sha256(convert_to(coalesce(r.key, '#' || r.row_id::text), 'UTF8')), 'hex')
           ELSE coalesce(r.key, '#' || r.row_id::text) END LIMIT 1) IS NULL
  AND r.row_id::text IS NOT NULL   -- not a condition of the index of ids, which has another order
ORDER BY r.place LIMIT $4;

-- name: claim_due
-- Return the first row of each parked key whose probe is due. For a row that is gone, return only the key.
SELECT hookwire_due.key AS parked_key, o.row_id, o.topic, o.key, o.payload, o.headers, o.content_type
FROM (SELECT d.key, d.row_id FROM hookwire.compat_parked d
      WHERE d.outbox = $1 AND d.probe_at <= clock_timestamp()
        AND EXISTS (SELECT FROM hookwire.relay_terms t WHERE t.sink = $1 AND t.grp = $2 AND t.term = $3)
      ORDER BY d.probe_at LIMIT $4) AS hookwire_due
LEFT JOIN LATERAL (
    SELECT (mapped_id)::text AS row_id, mapped_topic AS topic, mapped_key AS key, mapped_payload AS payload,
           mapped_headers AS headers, mapped_content_type AS content_type
    FROM mapped_table WHERE mapped_id = hookwire_due.row_id::mapped_type AND mapped_waits OFFSET 0) AS o ON true;

-- name: purge
-- Delete rows that were confirmed; return how many, and whether the term still holds.
WITH mine AS MATERIALIZED (
    SELECT FROM hookwire.relay_terms WHERE sink = $1 AND grp = $2 AND term = $3 FOR KEY SHARE
), gone AS (
    DELETE FROM mapped_table WHERE mapped_id = ANY ($4::text[]::mapped_type[]) AND EXISTS (SELECT FROM mine) RETURNING 1
)
SELECT (SELECT count(*) FROM gone) AS rows, (SELECT count(*) FROM mine) AS rules;

-- name: purge_by_mark
-- Mark rows that were confirmed; return how many wait no more, and whether the term still holds.
WITH mine AS MATERIALIZED (
    SELECT FROM hookwire.relay_terms WHERE sink = $1 AND grp = $2 AND term = $3 FOR KEY SHARE
), gone AS (
    UPDATE mapped_table SET mapped_mark
    WHERE mapped_id = ANY ($4::text[]::mapped_type[]) AND mapped_waits AND EXISTS (SELECT FROM mine)
    RETURNING (mapped_waits) AS waits
)
SELECT (SELECT count(*) FROM gone WHERE waits IS NOT TRUE) AS rows, (SELECT count(*) FROM mine) AS rules;

-- name: left
-- Return how many of these rows still wait.
SELECT count(*) FROM mapped_table WHERE mapped_id = ANY ($1::text[]::mapped_type[]) AND mapped_waits;

-- name: park
-- Park the keys whose record was refused. For a key that is parked already, double the wait, up to $9 seconds.
INSERT INTO hookwire.compat_parked AS p (outbox, key, record_id, row_id, topic, reason, detail, probe_at)
SELECT $1, r.key, 0, r.id, r.topic, r.reason, r.detail, clock_timestamp() + make_interval(secs => $8::double precision)
FROM unnest($4::text[], $5::text[], $6::text[], $7::text[], $10::text[]) AS r(key, id, topic, reason, detail)
WHERE EXISTS (SELECT FROM (SELECT FROM hookwire.relay_terms t
                           WHERE t.sink = $1 AND t.grp = $2 AND t.term = $3 FOR KEY SHARE) AS mine)
ON CONFLICT (outbox, key) DO UPDATE
SET row_id = excluded.row_id, topic = excluded.topic, reason = excluded.reason, detail = excluded.detail,
    attempts = p.attempts + 1,
    probe_at = clock_timestamp() + make_interval(secs => least($8::double precision * 2 ^ least(p.attempts, 10), $9::double precision));

-- name: types
-- Return the names of the types of the expressions, also when the table has no rows. A cast to such a name keeps the
-- length: without a length, "character" would be one of 1, and "bpchar" is of any.
SELECT format_type(pg_typeof(r.row_id), -1) AS id, format_type(pg_typeof(r.topic), -1) AS topic,
       format_type(pg_typeof(r.key), -1) AS key, format_type(pg_typeof(r.payload), -1) AS payload,
       format_type(pg_typeof(r.headers), -1) AS headers, format_type(pg_typeof(r.content_type), -1) AS content_type,
       format_type(pg_typeof(r.waits), -1) AS waits, format_type(pg_typeof(r.place), -1) AS offset_type
FROM (SELECT 1) AS one LEFT JOIN (
    SELECT mapped_id AS row_id, mapped_topic AS topic, mapped_key AS key, mapped_payload AS payload,
           mapped_headers AS headers, mapped_content_type AS content_type, mapped_waits AS waits, mapped_order AS place
    FROM mapped_table LIMIT 0) AS r ON true;

-- name: rights_missing
-- Return the missing rights on the table. $2: rows are marked, not deleted; NULL: they are neither.
SELECT concat_ws(', ', CASE WHEN NOT has_table_privilege(t, 'SELECT') THEN 'SELECT' END,
                       CASE WHEN $2 AND NOT has_any_column_privilege(t, 'UPDATE') THEN 'UPDATE' END,
                       CASE WHEN NOT $2 AND NOT has_table_privilege(t, 'DELETE') THEN 'DELETE' END)
FROM to_regclass($1::text) AS t;

-- name: without_id
-- Return whether rows wait that have no id: none of them can be sent, because none could be deleted.
SELECT EXISTS (SELECT FROM mapped_table WHERE mapped_id IS NULL AND mapped_waits);

-- name: inserted
-- Return how many rows were ever inserted, also into partitions, as the statistics count them.
SELECT coalesce(sum(s.n_tup_ins), 0)::bigint
FROM to_regclass($1::text) AS t JOIN pg_stat_user_tables s
     ON s.relid = t OR s.relid IN (SELECT p.relid FROM pg_partition_tree(t) AS p);

-- name: publish
-- Publish rows as events, up to the first whose key is held. The row's id is the idempotency key.
SELECT p.item, p.outcome FROM hookwire.publish_batch('default', $1::integer[], $2::text[], $3::text[], $4::text[], $5::text[],
    $6::bytea[], $7::text[], $8::bytea[], false, prefix => true) AS p ORDER BY p.item;

-- name: horizon
-- Return the highest offset that is committed, the first transaction id that is not given out yet, and the lowest that
-- still runs. What was drawn before belongs to ids below the former.
SELECT (SELECT r.place FROM (SELECT mapped_order AS place FROM mapped_table) AS r
        WHERE r.place IS NOT NULL ORDER BY r.place DESC LIMIT 1)::bigint AS place,
       pg_snapshot_xmax(s.snapshot)::text::bigint AS next_id, pg_snapshot_xmin(s.snapshot)::text::bigint AS oldest_id
FROM (SELECT pg_current_snapshot() AS snapshot) AS s;

-- name: claim_behind
-- Return the first rows behind the table's offset, up to the offset $4, in their order.
SELECT r.row_id::text AS row_id, r.topic, r.key, r.payload, r.headers, r.content_type, r.place
FROM (SELECT mapped_id AS row_id, mapped_topic AS topic, mapped_key AS key, mapped_payload AS payload,
             mapped_headers AS headers, mapped_content_type AS content_type, mapped_order AS place
      FROM mapped_table) AS r
WHERE EXISTS (SELECT FROM hookwire.relay_terms t WHERE t.sink = $1 AND t.grp = $2 AND t.term = $3)
  AND r.place > coalesce((SELECT o.place FROM hookwire.outbox_offsets o WHERE o.outbox = $1), -9223372036854775808)
  AND r.place <= $4::bigint
ORDER BY r.place LIMIT $5;

-- name: advance
-- Set the table's offset forward to $4, if the term still holds.
INSERT INTO hookwire.outbox_offsets AS o (outbox, place)
SELECT $1, $4 WHERE EXISTS (SELECT FROM (SELECT FROM hookwire.relay_terms t
                                         WHERE t.sink = $1 AND t.grp = $2 AND t.term = $3 FOR KEY SHARE) AS mine)
ON CONFLICT (outbox) DO UPDATE SET place = greatest(o.place, excluded.place), moved_at = clock_timestamp();
