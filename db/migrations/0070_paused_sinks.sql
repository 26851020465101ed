-- A sink that a person has paused: no process claims a record for it until it is resumed.

ALTER TABLE hookwire.sinks
    ADD COLUMN paused_at timestamptz,
    ADD COLUMN paused_by text,
    ADD COLUMN pause_reason text;
COMMENT ON COLUMN hookwire.sinks.paused_at IS 'Since when nothing is claimed for the sink. NULL: it is not paused.';
COMMENT ON COLUMN hookwire.sinks.paused_by IS 'Who paused it.';
COMMENT ON COLUMN hookwire.sinks.pause_reason IS 'Why, in the words of that person.';

-- Events that bypass the outbox wait in it while the webhooks are paused.
CREATE OR REPLACE FUNCTION hookwire.direct_audience(tenant text, units integer[], topics text[], keys text[], orders boolean[], routes text[], busy integer[], terms hookwire.direct_terms)
 RETURNS SETOF hookwire.direct_delivery
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
    in_tenant CONSTANT text := direct_audience.tenant;
BEGIN
    RETURN QUERY
    WITH draft AS MATERIALIZED (
        -- Of two events of a key in one commit the second waits for the first.
        SELECT q.n, q.topic, q.key
        FROM (SELECT d.n::integer AS n, d.unit, d.topic, d.key, d.ordered, d.route,
                     count(*) OVER (PARTITION BY d.key) AS of_key
              FROM unnest(units, topics, keys, orders, routes) WITH ORDINALITY AS d(unit, topic, key, ordered, route, n)) AS q
        WHERE q.unit <> ALL (busy) AND 'webhooks' = ANY (string_to_array(q.route, ','))
          AND (SELECT t.name FROM hookwire.topics t WHERE t.tenant = in_tenant AND t.name = q.topic) IS NOT NULL
          AND (q.key IS NULL OR (q.ordered AND q.of_key = 1 AND (
                  SELECT o.id FROM hookwire.outbox o
                  WHERE o.sink = 'webhooks' AND o.shard = hookwire.shard_of(hookwire.lane_digest(q.topic, q.key))
                    AND o.id >= terms.low
                  ORDER BY o.id LIMIT 1) IS NULL))
    ), pattern AS MATERIALIZED (
        SELECT x.id, x.topic_regex FROM hookwire.subscriptions x
        WHERE x.tenant = in_tenant AND x.state = 'active' AND x.topic_regex IS NOT NULL
        LIMIT terms.patterns_max + 1
    ), chosen AS MATERIALIZED (
        -- A limit for the whole commit: where it is passed, all drafts take the outbox, and nothing more is read.
        SELECT c.* FROM (
            SELECT d.n, d.key, s.id
            FROM draft d CROSS JOIN LATERAL (
                SELECT x.id FROM hookwire.subscriptions x
                WHERE x.tenant = in_tenant AND x.topic = d.topic AND x.state = 'active' AND x.topic_regex IS NULL
                LIMIT terms.deliveries_max + 1
            ) AS s
            UNION ALL
            SELECT d.n, d.key, p.id FROM draft d CROSS JOIN pattern p WHERE d.topic ~ p.topic_regex
        ) AS c
        LIMIT terms.deliveries_max + 1
    ), owed AS MATERIALIZED (
        -- is_plain: nothing has to be judged, counted or waited for. The lane of a pattern holds the key in other topics,
        -- too, whose stripes are not held here.
        SELECT c.n, s.*,
               s.is_usual AND (SELECT g.subscription_id FROM hookwire.delivery_gates g
                               WHERE g.subscription_id = s.id AND g.trips > 0) IS NULL
               AND (s.lane IS NULL OR (SELECT x.event_id FROM hookwire.deliveries x
                                       WHERE x.subscription_id = s.id AND x.lane = s.lane
                                       ORDER BY x.event_id LIMIT 1) IS NULL) AS is_plain
        FROM chosen c CROSS JOIN LATERAL (
            SELECT x.id, x.version,
                   coalesce(x.timeout_seconds, terms.timeout_seconds) + terms.lease_margin_seconds AS lease_seconds,
                   CASE WHEN x.ordered THEN c.key END AS lane,
                   x.protocol IN ('webhook', 'websub') AND x.filter_path IS NULL AND x.rate_per_second IS NULL
                   AND NOT x.at_most_once AND x.format <> 'batch' AND NOT (x.ordered AND x.topic_regex IS NOT NULL)
                   AND (x.paused_until IS NULL OR x.paused_until <= clock_timestamp()) AS is_usual
            FROM hookwire.subscriptions x
            WHERE x.id = c.id
              AND (x.protocol NOT IN ('webhook', 'websub') OR x.lease_until IS NULL OR x.lease_until > clock_timestamp())
            LIMIT 1
        ) AS s
    )
    SELECT d.n, o.id, o.version, o.lease_seconds, o.lane
    FROM draft d LEFT JOIN owed o ON o.n = d.n
    WHERE NOT EXISTS (SELECT FROM owed x WHERE x.n = d.n AND NOT x.is_plain)
      AND (SELECT count(*) FROM chosen) <= terms.deliveries_max
      AND (SELECT count(*) FROM pattern) <= terms.patterns_max
      AND (SELECT h.id FROM hookwire.held h WHERE h.sink = 'webhooks' ORDER BY h.id LIMIT 1) IS NULL
      AND (SELECT h.topic FROM hookwire.holds h WHERE h.sink = 'webhooks' LIMIT 1) IS NULL
      AND NOT EXISTS (SELECT FROM hookwire.sinks k WHERE k.name = 'webhooks' AND k.paused_at IS NOT NULL)
      -- While a layout is changed, the leases are closed.
      AND (SELECT t.grp FROM hookwire.relay_terms t WHERE t.sink = 'webhooks' AND NOT t.is_open LIMIT 1) IS NULL
      AND hookwire.origin() = terms.origin
      AND current_setting('transaction_isolation') = 'read committed';
END
$function$;
COMMENT ON FUNCTION hookwire.direct_audience(text,integer[],text[],text[],boolean[],text[],integer[],hookwire.direct_terms) IS
'The drafts that may take the direct path, with their audience. A draft that is not returned takes the outbox.

One statement, so that all conditions hold at one moment: an event leaves the outbox in the statement that makes its
deliveries. The caller holds the stripes of the keys, so every earlier event of a key is committed. It also keeps
subscriptions from being activated or changed until COMMIT. An event in slices keeps its outbox row, so its cursor is
not looked for. A snapshot older than the locks would show none of this: hence only READ COMMITTED.';
REVOKE EXECUTE ON FUNCTION hookwire.direct_audience(text,integer[],text[],text[],boolean[],text[],integer[],hookwire.direct_terms) FROM PUBLIC;
