-- RabbitHub's exchanges and queues as endpoints (room hub). Messages are events, deliveries are those of everybody.

CREATE TABLE hookwire.rabbithub_resources (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text NOT NULL DEFAULT 'default',
    vhost text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('x', 'q')),
    name text NOT NULL,
    exchange_type text CHECK (exchange_type IN ('direct', 'fanout', 'topic', 'headers')),
    -- A queue's messages wait as the deliveries of a subscription that nobody fetches, until a consumer is free.
    source bigint REFERENCES hookwire.subscriptions (id),
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (tenant, vhost, kind, name),
    CHECK ((kind = 'x') = (exchange_type IS NOT NULL) AND (kind = 'q') = (source IS NOT NULL))
);

CREATE TABLE hookwire.rabbithub_subscriptions (
    subscription_id bigint PRIMARY KEY REFERENCES hookwire.subscriptions (id) ON DELETE CASCADE,
    resource_id bigint NOT NULL REFERENCES hookwire.rabbithub_resources (id) ON DELETE CASCADE,
    hub_topic text NOT NULL,
    lease_seconds bigint NOT NULL,
    details jsonb NOT NULL DEFAULT '{}'         -- contact, ha_mode, max_tps: as they were given
);
CREATE INDEX rabbithub_subscriptions_resource ON hookwire.rabbithub_subscriptions (resource_id);

ALTER TABLE hookwire.subscriptions
    DROP CONSTRAINT subscriptions_protocol_check,
    ADD CONSTRAINT subscriptions_protocol_check CHECK (protocol IN ('webhook', 'websub', 'pull', 'rabbithub'));

CREATE UNIQUE INDEX subscriptions_rabbithub ON hookwire.subscriptions (tenant, identity)
    WHERE protocol = 'rabbithub' AND state <> 'deleted';
CREATE INDEX subscriptions_rabbithub_lease ON hookwire.subscriptions (lease_until)
    WHERE protocol = 'rabbithub' AND state = 'active';

-- What a verified request makes here; NULL: a WebSub subscription.
ALTER TABLE hookwire.intents ADD COLUMN rabbithub jsonb;
