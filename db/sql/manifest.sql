-- Manifests: the records of a numbered batch, written before it is sent (RR-06). Each statement names the origin of the
-- ids that a process remembers, as in outbox.sql (FC-01).

-- name: write
-- Delete the last number when the next one is written. The number is at least $6, which the writer knows from the
-- previous batch. So the statement reads no dead row, under any plan (RR-07). A server that has lost its latest numbers
-- has none from $6 on. The writer continues from its own number, so that no number that Kafka has is used again.
--
-- Also purge the batches $10 before it, as manifest.purge does: one statement has one flush of the log. The records $8
-- and $9 are confirmed, so the purge needs no term.
WITH term_held AS MATERIALIZED (
    SELECT layout, batch_no FROM hookwire.relay_terms WHERE sink = $1 AND grp = $2 AND term = $3
      AND (SELECT hookwire.assert_origin($7, 0)) FOR KEY SHARE
), last AS MATERIALIZED (
    SELECT r.layout, n.place, greatest(r.batch_no, n.batch_no, $6) AS batch_no
    FROM term_held r LEFT JOIN LATERAL (
        SELECT x.ctid AS place, x.batch_no FROM hookwire.relay_batch_numbers x
        WHERE x.sink = $1 AND x.layout = r.layout AND x.grp = $2 AND x.batch_no >= $6 ORDER BY x.batch_no DESC LIMIT 1
    ) AS n ON true
), passed AS (
    DELETE FROM hookwire.relay_batch_numbers WHERE ctid = ANY (ARRAY(SELECT l.place FROM last l WHERE l.place IS NOT NULL))
), numbered AS (
    INSERT INTO hookwire.relay_batch_numbers (sink, layout, grp, batch_no)
    SELECT $1, layout, $2, batch_no + 1 FROM last
    RETURNING layout, batch_no
), gone AS (
    DELETE FROM hookwire.relay_batches WHERE sink = $1 AND layout = $11 AND grp = $2 AND batch_no = ANY ($10::bigint[])
), purged AS (
    DELETE FROM hookwire.outbox
    WHERE ctid = ANY (ARRAY(
        SELECT found.place FROM unnest($8::smallint[], $9::bigint[]) AS a(shard, id)
        CROSS JOIN LATERAL (
            SELECT o.ctid AS place FROM hookwire.outbox o
            WHERE o.sink = $1 AND o.shard = a.shard AND o.id = a.id LIMIT 1
        ) AS found))
    RETURNING id
), noted AS (
    INSERT INTO hookwire.ledger_entries (sink, outcome, ids) SELECT $1, 'sent', array_agg(id) FROM purged HAVING count(*) > 0
)
INSERT INTO hookwire.relay_batches (sink, layout, grp, batch_no, shards, ids)
SELECT $1, layout, $2, batch_no, $4::smallint[], $5::bigint[] FROM numbered
RETURNING batch_no;

-- name: settle
-- The records that the progress marker covers are published: delete them from the outbox without sending them again.
-- Manifests above the marker were never committed: delete only the manifest, and claim the records again.
WITH term_held AS MATERIALIZED (
    SELECT FROM hookwire.relay_terms WHERE sink = $1 AND grp = $2 AND term = $3 FOR KEY SHARE
), batch AS (
    DELETE FROM hookwire.relay_batches b
    WHERE b.sink = $1 AND b.grp = $2 AND EXISTS (SELECT FROM term_held)
    RETURNING b.batch_no, b.shards, b.ids
), published AS (
    SELECT p.shard, p.id FROM batch b, unnest(b.shards, b.ids) AS p(shard, id) WHERE b.batch_no <= $4
), purged AS (
    DELETE FROM hookwire.outbox
    WHERE ctid = ANY (ARRAY(
        SELECT found.place FROM published a
        CROSS JOIN LATERAL (
            SELECT o.ctid AS place FROM hookwire.outbox o
            WHERE o.sink = $1 AND o.shard = a.shard AND o.id = a.id LIMIT 1
        ) AS found))
    RETURNING id
), purged_held AS (
    DELETE FROM hookwire.held
    WHERE ctid = ANY (ARRAY(
        SELECT found.place FROM published a
        CROSS JOIN LATERAL (
            SELECT h.ctid AS place FROM hookwire.held h
            WHERE h.sink = $1 AND h.id BETWEEN a.id AND a.id ORDER BY h.id LIMIT 1 -- as in hold.purge
        ) AS found))
    RETURNING id
), noted AS (
    INSERT INTO hookwire.ledger_entries (sink, outcome, ids)
    SELECT $1, 'sent', array_agg(id) FROM (SELECT id FROM purged UNION ALL SELECT id FROM purged_held) AS gone HAVING count(*) > 0
)
SELECT (SELECT count(*) FROM batch) AS batches, (SELECT count(*) FROM purged) + (SELECT count(*) FROM purged_held) AS records;

-- name: purge
-- The batch is acknowledged and committed: delete its records and its manifest, by the whole key, in one statement.
WITH gone AS (
    DELETE FROM hookwire.relay_batches WHERE sink = $1 AND layout = $6 AND grp = $4 AND batch_no = $5
), purged AS (
    DELETE FROM hookwire.outbox
    WHERE ctid = ANY (ARRAY(
        SELECT found.place FROM unnest($2::smallint[], $3::bigint[]) AS a(shard, id)
        CROSS JOIN LATERAL (
            SELECT o.ctid AS place FROM hookwire.outbox o
            WHERE o.sink = $1 AND o.shard = a.shard AND o.id = a.id LIMIT 1
        ) AS found)) AND (SELECT hookwire.assert_origin($7, 0))
    RETURNING id
), noted AS (
    INSERT INTO hookwire.ledger_entries (sink, outcome, ids) SELECT $1, 'sent', array_agg(id) FROM purged HAVING count(*) > 0
)
SELECT count(*) FROM purged;
