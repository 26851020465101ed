-- Jobs from events: the sink `jobs`.

-- name: enqueue
-- The purge of the outbox rows feeds the jobs: each event enqueues one job, exactly once, under the term of $1 and $2. Takes
-- events up to $6 bytes of payload, one at least.
WITH term_held AS MATERIALIZED (
    SELECT FROM hookwire.relay_terms WHERE sink = 'jobs' AND grp = $1 AND term = $2 FOR KEY SHARE
), due AS MATERIALIZED (
    SELECT s.shard, s.id
    FROM (SELECT a.shard, a.id, sum(octet_length(e.payload)) OVER (ORDER BY a.id) - octet_length(e.payload) AS before
          FROM unnest($3::smallint[], $4::bigint[]) AS a(shard, id)
          CROSS JOIN LATERAL (
              SELECT x.payload FROM hookwire.events x WHERE x.id BETWEEN a.id AND a.id ORDER BY x.id LIMIT 1
          ) AS e) AS s
    WHERE s.before < $6::bigint
), gone AS MATERIALIZED (
    DELETE FROM hookwire.outbox
    WHERE ctid = ANY (ARRAY(
        SELECT found.place FROM due d
        CROSS JOIN LATERAL (
            SELECT o.ctid AS place FROM hookwire.outbox o
            WHERE o.sink = 'jobs' AND o.shard = d.shard AND o.id = d.id LIMIT 1
        ) AS found)) AND EXISTS (SELECT FROM term_held)
    RETURNING id
), noted AS (
    INSERT INTO hookwire.ledger_entries (sink, outcome, ids)
    SELECT 'jobs', 'sent', array_agg(id) FROM gone HAVING count(*) > 0
)
SELECT EXISTS (SELECT FROM term_held) AS leads, ARRAY(SELECT d.id FROM due d) AS ids, (SELECT count(*) FROM gone) AS events,
       (SELECT hookwire.enqueue_events(coalesce(array_agg(g.id ORDER BY g.id), '{}'), $5) FROM gone g) AS jobs;
