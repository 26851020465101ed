-- Hub and topic of an upstream may be given by hand. An active upstream that got nothing for longer than usual is told.
ALTER TABLE hookwire.upstreams
    ADD COLUMN given_hub_url text,
    ADD COLUMN given_topic_url text,
    ADD COLUMN received_at timestamp with time zone,
    ADD COLUMN longest_gap interval,
    ADD COLUMN quiet_told_at timestamp with time zone;
COMMENT ON COLUMN hookwire.upstreams.given_hub_url IS 'The hub that a person named; NULL: it is discovered.';
COMMENT ON COLUMN hookwire.upstreams.given_topic_url IS 'The topic''s URL that a person named; NULL: it is discovered.';
COMMENT ON COLUMN hookwire.upstreams.received_at IS 'When the last delivery came.';
COMMENT ON COLUMN hookwire.upstreams.longest_gap IS 'The longest time between two deliveries.';
COMMENT ON COLUMN hookwire.upstreams.quiet_told_at IS 'When it was told that nothing comes; NULL: since the last delivery never.';

CREATE FUNCTION hookwire.is_quiet(upstream hookwire.upstreams) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN (upstream).state = 'active' AND clock_timestamp() > coalesce((upstream).received_at, (upstream).created_at)
        + greatest(2 * coalesce((upstream).longest_gap, interval '12 hours'), interval '1 hour');
REVOKE EXECUTE ON FUNCTION hookwire.is_quiet(hookwire.upstreams) FROM PUBLIC;
