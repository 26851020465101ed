-- RabbitHub: queues bound to exchanges, counted errors, leases that operators were told about; WebSub: other hubs that
-- are told of a hosted topic's changes by deliveries in a format of their own.

ALTER TABLE hookwire.rabbithub_subscriptions
    ADD COLUMN queue_id bigint REFERENCES hookwire.rabbithub_resources (id) ON DELETE CASCADE,  -- of a binding only
    ADD COLUMN error_count bigint NOT NULL DEFAULT 0,      -- failed attempts since it was last subscribed
    ADD COLUMN first_error_at timestamptz,
    ADD COLUMN last_error_at timestamptz,
    ADD COLUMN last_error text,
    ADD COLUMN window_from timestamptz,                    -- the errors that count for the limit began then
    ADD COLUMN window_errors bigint NOT NULL DEFAULT 0,
    ADD COLUMN told_until timestamptz;                     -- operators know that the lease ends then
CREATE INDEX rabbithub_subscriptions_bindings ON hookwire.rabbithub_subscriptions (queue_id) WHERE queue_id IS NOT NULL;

-- A binding is a subscription that nobody fetches; whatever reaches it moves into its queue.
CREATE UNIQUE INDEX subscriptions_binding ON hookwire.subscriptions (tenant, identity)
    WHERE protocol = 'pull' AND state <> 'deleted' AND identity IS NOT NULL;

ALTER TABLE hookwire.subscriptions
    DROP CONSTRAINT subscriptions_format_check,
    ADD CONSTRAINT subscriptions_format_check
        CHECK (format IN ('as_published', 'raw', 'binary', 'structured', 'batch', 'websub_ping'));
