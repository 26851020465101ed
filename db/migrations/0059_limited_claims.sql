-- Claims of kinds with a limit for each key (JB-70, JB-71) look at the head of the queue first. As long as most of it may
-- run, that is the whole answer, at the price of a claim without limits. Only where blocked keys fill the head are the keys
-- walked one by one (docs/adr/0040-priority-as-a-rank-and-limits-under-a-lock.md).

-- How many jobs of each of these keys may begin now, `room` at most. A key with nothing to spare has none.
CREATE FUNCTION hookwire.key_allowances(policy hookwire.job_kinds, keys text[], room integer, moment timestamptz)
RETURNS TABLE (key text, most bigint)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT k.key, CASE WHEN k.key = '' THEN room::bigint ELSE greatest(0, least(
        room::bigint,
        policy.key_running_max - (SELECT count(*) FROM hookwire.jobs j WHERE j.kind = policy.kind AND j.key = k.key AND j.state = 'running'),
        CASE WHEN policy.key_rate_per_second IS NOT NULL THEN floor(coalesce(
            least(policy.key_burst, r.tokens + extract(epoch FROM moment - r.counted_at) * policy.key_rate_per_second), policy.key_burst))::bigint END)) END
    FROM (SELECT DISTINCT unnest(keys) AS key) AS k LEFT JOIN hookwire.job_rates r ON r.kind = policy.kind AND r.key = k.key;
END
$$;

-- The first `room` jobs in order of rank that may begin; NULL where the head of the queue does not tell.
CREATE FUNCTION hookwire.pick_at_head(policy hookwire.job_kinds, in_queue text, room integer, moment timestamptz) RETURNS uuid[]
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    looked_at CONSTANT integer := 2 * room + 20;
    ids uuid[];
    keys text[];
    picked uuid[];
BEGIN
    SELECT array_agg(h.id), array_agg(h.key) INTO ids, keys
    FROM (SELECT j.id, j.key FROM hookwire.jobs j
          WHERE j.queue = in_queue AND j.kind = policy.kind AND j.state = 'available' AND NOT j.for_people
          ORDER BY j.rank_at, j.seq LIMIT looked_at) AS h;
    picked := ARRAY(
        SELECT p.id
        FROM (SELECT h.id, h.key, h.n, row_number() OVER (PARTITION BY h.key ORDER BY h.n) AS place
              FROM unnest(ids, keys) WITH ORDINALITY AS h(id, key, n)) AS p
        JOIN hookwire.key_allowances(policy, keys, room, moment) AS a ON a.key = p.key AND p.place <= a.most
        ORDER BY p.n LIMIT room);
    RETURN CASE WHEN cardinality(picked) = room OR coalesce(cardinality(ids), 0) < looked_at THEN picked END;
END
$$;

-- The same by the keys, whatever fills the head. It looks at 500 keys, beginning at a random one where there are more, and
-- within each key at as many jobs as the key may run: a blocked key costs one step, however long its queue.
CREATE FUNCTION hookwire.pick_by_key(policy hookwire.job_kinds, in_queue text, room integer, moment timestamptz) RETURNS uuid[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    keys_max CONSTANT integer := 500;
    names text[] := hookwire.job_keys(in_queue, policy.kind, '', keys_max + 1);
BEGIN
    IF cardinality(names) > keys_max THEN
        names := hookwire.job_keys(in_queue, policy.kind, chr(33 + floor(random() * 94)::integer), keys_max);
        names := names || (hookwire.job_keys(in_queue, policy.kind, '', keys_max))[1:keys_max - cardinality(names)];
    END IF;
    RETURN ARRAY(
        SELECT c.id
        FROM hookwire.key_allowances(policy, names || ''::text, room, moment) AS a
        CROSS JOIN LATERAL (
            SELECT j.id, j.rank_at, j.seq FROM hookwire.jobs j
            WHERE j.queue = in_queue AND j.kind = policy.kind AND j.key = a.key AND j.state = 'available' AND NOT j.for_people
            ORDER BY j.rank_at, j.seq LIMIT a.most
        ) AS c
        ORDER BY c.rank_at, c.seq LIMIT room);
END
$$;

-- Up to `most` jobs of a limited kind (JB-70, JB-71), under its lock.
CREATE OR REPLACE FUNCTION hookwire.pick_limited_jobs(policy hookwire.job_kinds, in_queue text, most integer) RETURNS uuid[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    moment CONSTANT timestamptz := clock_timestamp();
    room integer := most;
    candidates uuid[];
    picked uuid[];
BEGIN
    IF policy.running_max IS NOT NULL THEN
        room := least(most, policy.running_max - (SELECT count(*) FROM hookwire.jobs j WHERE j.kind = policy.kind AND j.state = 'running'));
    END IF;
    IF room <= 0 THEN
        RETURN '{}';
    ELSIF policy.key_running_max IS NULL AND policy.key_rate_per_second IS NULL THEN
        RETURN ARRAY(SELECT j.id FROM hookwire.jobs j
                     WHERE j.queue = in_queue AND j.kind = policy.kind AND j.state = 'available' AND NOT j.for_people
                     ORDER BY j.rank_at, j.seq LIMIT room FOR NO KEY UPDATE SKIP LOCKED);
    END IF;
    candidates := hookwire.pick_at_head(policy, in_queue, room, moment);
    IF candidates IS NULL THEN
        candidates := hookwire.pick_by_key(policy, in_queue, room, moment);
    END IF;
    WITH chosen AS MATERIALIZED (
        SELECT j.id, j.key FROM hookwire.jobs j WHERE j.id = ANY (candidates) AND j.state = 'available'
        FOR NO KEY UPDATE SKIP LOCKED
    ), spent AS (
        INSERT INTO hookwire.job_rates AS r (kind, key, tokens, counted_at)
        SELECT policy.kind, c.key, policy.key_burst - count(*), moment FROM chosen c
        WHERE policy.key_rate_per_second IS NOT NULL AND c.key <> '' GROUP BY c.key
        ON CONFLICT (kind, key) DO UPDATE SET counted_at = moment, tokens = least(
            policy.key_burst, r.tokens + extract(epoch FROM moment - r.counted_at) * policy.key_rate_per_second)
            - (policy.key_burst - excluded.tokens)
    )
    SELECT coalesce(array_agg(c.id), '{}') INTO picked FROM chosen c;
    RETURN picked;
END
$$;
