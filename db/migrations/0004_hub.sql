-- The hub: API keys and operators, and the protocols through which subscribers and other hubs come.
--
--   WebSub      intents --> verification --> subscriptions; foreign_topics and upstreams bring content of other hubs
--   RabbitHub   exchanges and queues as endpoints; messages are events, and deliveries are those of 0002

-- --- keys, audit, readiness ---

CREATE TABLE hookwire.api_keys (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    public_id text NOT NULL UNIQUE,
    tenant text NOT NULL DEFAULT 'default',
    name text NOT NULL,
    digest bytea NOT NULL UNIQUE CHECK (length(digest) = 32),
    scopes text[] NOT NULL CHECK (
        scopes <@ ARRAY['publish', 'subscribe', 'read', 'payloads', 'operate', 'enqueue', 'work', 'call', 'admin']
        AND cardinality(scopes) > 0),
    topics text[] CHECK (cardinality(topics) > 0),
    expires_at timestamptz,
    revoked_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    queues text[] CHECK (cardinality(queues) > 0),
    kinds text[] CHECK (cardinality(kinds) > 0),
    services text[] CHECK (cardinality(services) > 0)
);
COMMENT ON TABLE hookwire.api_keys IS 'API keys. A key is known by the SHA-256 of its text; the text is shown once (SE-04).';
COMMENT ON COLUMN hookwire.api_keys.digest IS 'SHA-256 of the key''s text.';
COMMENT ON COLUMN hookwire.api_keys.scopes IS 'What the key may do.';
COMMENT ON COLUMN hookwire.api_keys.topics IS 'Patterns of topics that it may use; NULL: all.';
COMMENT ON COLUMN hookwire.api_keys.queues IS 'Patterns of queues; NULL: all.';
COMMENT ON COLUMN hookwire.api_keys.kinds IS 'Patterns of kinds of tasks and jobs; NULL: all.';
COMMENT ON COLUMN hookwire.api_keys.services IS 'Patterns of services; NULL: all.';

CREATE TABLE hookwire.audit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT now(),
    tenant text NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    subject text NOT NULL,
    reason text,
    records bigint NOT NULL DEFAULT 1
);
COMMENT ON TABLE hookwire.audit IS 'What operators did, to what, and why; written in the statement that does it.';
COMMENT ON COLUMN hookwire.audit.actor IS 'The public id or name of the key that was used.';
COMMENT ON COLUMN hookwire.audit.action IS 'The operation, as noun.verb.';
COMMENT ON COLUMN hookwire.audit.subject IS 'What it was done to.';
COMMENT ON COLUMN hookwire.audit.records IS 'How many records it concerned.';

CREATE INDEX audit_jobs ON hookwire.audit (subject, id) WHERE starts_with(action, 'job.');

CREATE TABLE hookwire.readiness (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    written_at timestamptz NOT NULL
);
COMMENT ON TABLE hookwire.readiness IS 'One row that the readiness check changes, to see that the server can write (FC-06).';
COMMENT ON COLUMN hookwire.readiness.singleton IS 'Always true: there is one row.';
COMMENT ON COLUMN hookwire.readiness.written_at IS 'When the check wrote last.';

-- Write one row and half a mebibyte of temporary file (FC-06): a read-only server and a full disk answer every question. The
-- row is changed in place; the spilled sort takes new blocks of the disk. Raise the server's error when it cannot write.
CREATE FUNCTION hookwire.check_writable() RETURNS timestamptz
LANGUAGE plpgsql SET work_mem = '64kB' AS $$
DECLARE
    moment timestamptz;
BEGIN
    PERFORM count(*) FROM (SELECT n FROM generate_series(1, 20000) AS n ORDER BY hashint4(n)) AS spilled;
    INSERT INTO hookwire.readiness AS r (written_at) VALUES (now())
    ON CONFLICT (singleton) DO UPDATE SET written_at = excluded.written_at
    RETURNING r.written_at INTO moment;
    RETURN moment;
END $$;

-- --- WebSub ---

CREATE TABLE hookwire.intents (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,     -- rises in the order of acceptance per callback host (WS-103)
    tenant text NOT NULL DEFAULT 'default',
    mode text NOT NULL CHECK (mode IN ('subscribe', 'unsubscribe')),
    topic text NOT NULL,                                    -- the hosted topic's name
    topic_url text NOT NULL,
    callback text NOT NULL,                                 -- raw, as sent (WS-24)
    callback_host text NOT NULL,
    identity bytea NOT NULL CHECK (length(identity) = 32),
    lease_seconds bigint,                                   -- granted; NULL to unsubscribe
    signature_method text NOT NULL,
    verify_token text,
    key_id text,
    sealed bytea,
    state text NOT NULL DEFAULT 'requested'
        CHECK (state IN ('requested', 'verifying', 'verified', 'failed', 'superseded', 'denied')),
    due_at timestamptz NOT NULL,
    attempts integer NOT NULL DEFAULT 0,                    -- claims so far; the number of the latest is its fence
    reason text,
    created_at timestamptz NOT NULL DEFAULT now(),
    decided_at timestamptz,
    stage text NOT NULL DEFAULT 'verify' CHECK (stage IN ('validate', 'verify', 'deny')),
    stage_from integer NOT NULL DEFAULT 0,
    denial text,
    requester text,
    verify text CHECK (verify IN ('sync', 'async')),
    permanent boolean NOT NULL DEFAULT false,
    rabbithub jsonb,
    requester_network text,
    CHECK ((key_id IS NULL) = (sealed IS NULL)),
    CONSTRAINT intents_lease_check CHECK ((lease_seconds IS NULL) = (mode = 'unsubscribe' OR stage = 'deny'))
);
COMMENT ON TABLE hookwire.intents IS 'WebSub requests to subscribe or unsubscribe, until they are decided and for a day after.';
COMMENT ON COLUMN hookwire.intents.mode IS 'subscribe or unsubscribe.';
COMMENT ON COLUMN hookwire.intents.topic_url IS 'The topic''s URL as the request named it.';
COMMENT ON COLUMN hookwire.intents.callback_host IS 'For limits that count by host.';
COMMENT ON COLUMN hookwire.intents.identity IS 'SHA-256 of topic and callback, as in subscriptions.';
COMMENT ON COLUMN hookwire.intents.verify_token IS 'PubSubHubbub 0.3: the token that is echoed.';
COMMENT ON COLUMN hookwire.intents.key_id IS 'The key that sealed the secret.';
COMMENT ON COLUMN hookwire.intents.sealed IS 'The subscriber''s secret, encrypted.';
COMMENT ON COLUMN hookwire.intents.state IS 'requested, verifying, verified, failed, superseded or denied.';
COMMENT ON COLUMN hookwire.intents.due_at IS 'When the next step is made; while a step is under way, the end of its lease.';
COMMENT ON COLUMN hookwire.intents.stage IS
    'The next step: ask the publisher (validate), ask the callback (verify), or tell it no (deny).';
COMMENT ON COLUMN hookwire.intents.stage_from IS 'How many attempts had been made when the current step began.';
COMMENT ON COLUMN hookwire.intents.denial IS 'Why it is denied.';
COMMENT ON COLUMN hookwire.intents.requester IS 'Who sent the request: a key or an account.';
COMMENT ON COLUMN hookwire.intents.verify IS 'PubSubHubbub 0.3: sync or async.';
COMMENT ON COLUMN hookwire.intents.permanent IS 'Whether the request named no lease (PubSubHubbub 0.3).';
COMMENT ON COLUMN hookwire.intents.rabbithub IS 'What a verified request makes in RabbitHub; NULL: a WebSub subscription.';
COMMENT ON COLUMN hookwire.intents.requester_network IS 'As in subscriptions.';

CREATE INDEX intents_due ON hookwire.intents (due_at) WHERE state IN ('requested', 'verifying');
CREATE INDEX intents_in_flight ON hookwire.intents (callback_host, mode) WHERE state = 'verifying';
CREATE INDEX intents_pair ON hookwire.intents (tenant, identity, id);
CREATE INDEX intents_decided ON hookwire.intents (decided_at) WHERE decided_at IS NOT NULL;
CREATE INDEX intents_of_host ON hookwire.intents (callback_host)
    WHERE state IN ('requested', 'verifying') AND mode = 'subscribe';
CREATE INDEX intents_of_requester ON hookwire.intents (requester_network)
    WHERE state IN ('requested', 'verifying');

CREATE TABLE hookwire.verification_buckets (
    tenant text NOT NULL,
    host text NOT NULL,
    tokens double precision NOT NULL,
    refilled_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, host),
    CHECK ((tenant = '') <> (host = ''))
) WITH (fillfactor = 50);
COMMENT ON TABLE hookwire.verification_buckets IS
    'Tokens of verification requests: an empty host is a tenant''s bucket, an empty tenant a host''s.';
COMMENT ON COLUMN hookwire.verification_buckets.tokens IS 'As of refilled_at.';

CREATE TABLE hookwire.foreign_topics (
    tenant text NOT NULL DEFAULT 'default',
    topic text NOT NULL,                            -- hub.topic_url.foreign_name(url): the name in events and subscriptions
    url text NOT NULL,
    self_url text,
    hub_url text,
    feed_diff boolean NOT NULL DEFAULT false,
    always_deliver boolean NOT NULL DEFAULT false,
    pings bigint NOT NULL DEFAULT 0,
    pings_fetched bigint NOT NULL DEFAULT 0,
    due_at timestamptz,
    claimed_until timestamptz,
    claims bigint NOT NULL DEFAULT 0,
    failures integer NOT NULL DEFAULT 0,
    etag text,
    last_modified text,
    digest bytea,
    entries jsonb,
    last_status smallint,
    last_error text,
    fetched_at timestamptz,
    changed_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, topic)
);
COMMENT ON TABLE hookwire.foreign_topics IS 'Topics of other publishers: named by their URL and fetched when a publisher pings.';
COMMENT ON COLUMN hookwire.foreign_topics.url IS 'As it was first named; where it is fetched.';
COMMENT ON COLUMN hookwire.foreign_topics.self_url IS 'The topic as the content names itself.';
COMMENT ON COLUMN hookwire.foreign_topics.hub_url IS 'The hub that the content names.';
COMMENT ON COLUMN hookwire.foreign_topics.feed_diff IS 'Atom and RSS: whether only new and changed entries are delivered.';
COMMENT ON COLUMN hookwire.foreign_topics.always_deliver IS 'Whether unchanged content is delivered too.';
COMMENT ON COLUMN hookwire.foreign_topics.pings IS 'Pings that were received.';
COMMENT ON COLUMN hookwire.foreign_topics.pings_fetched IS 'Pings that the latest good fetch covers.';
COMMENT ON COLUMN hookwire.foreign_topics.due_at IS 'When it is fetched next; NULL: there is nothing to fetch.';
COMMENT ON COLUMN hookwire.foreign_topics.claimed_until IS 'Until when one process fetches it.';
COMMENT ON COLUMN hookwire.foreign_topics.claims IS 'Claims so far; the number of the latest is its fence.';
COMMENT ON COLUMN hookwire.foreign_topics.failures IS 'Failed fetches in a row.';
COMMENT ON COLUMN hookwire.foreign_topics.etag IS 'For conditional requests.';
COMMENT ON COLUMN hookwire.foreign_topics.last_modified IS 'For conditional requests.';
COMMENT ON COLUMN hookwire.foreign_topics.digest IS 'SHA-256 of the type and content that was fetched last.';
COMMENT ON COLUMN hookwire.foreign_topics.entries IS 'Digests of a feed''s entries, by id.';

CREATE INDEX foreign_topics_due ON hookwire.foreign_topics (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE hookwire.upstreams (
    tenant text NOT NULL DEFAULT 'default',
    topic text NOT NULL,                            -- the foreign topic's name
    url text NOT NULL,
    token text NOT NULL UNIQUE,
    key_id text NOT NULL,
    sealed bytea NOT NULL,
    hub_url text,
    self_url text,
    state text NOT NULL DEFAULT 'wanted' CHECK (state IN ('wanted', 'requested', 'active', 'denied', 'ended')),
    reason text,
    lease_until timestamptz,
    due_at timestamptz DEFAULT now(),
    claimed_until timestamptz,
    claims bigint NOT NULL DEFAULT 0,
    failures integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, topic)
);
COMMENT ON TABLE hookwire.upstreams IS 'Foreign topics that another hub delivers here, instead of being fetched.';
COMMENT ON COLUMN hookwire.upstreams.url IS 'Where the topic is discovered.';
COMMENT ON COLUMN hookwire.upstreams.token IS 'The part of the callback''s URL that cannot be guessed.';
COMMENT ON COLUMN hookwire.upstreams.key_id IS 'The key that sealed the secret.';
COMMENT ON COLUMN hookwire.upstreams.sealed IS 'The secret of the subscription there, encrypted.';
COMMENT ON COLUMN hookwire.upstreams.hub_url IS 'The hub that was discovered last.';
COMMENT ON COLUMN hookwire.upstreams.self_url IS 'The topic as the other hub names it.';
COMMENT ON COLUMN hookwire.upstreams.due_at IS 'When the topic is discovered and its hub is asked again; NULL: not by itself.';
COMMENT ON COLUMN hookwire.upstreams.claimed_until IS 'Until when one process makes it.';
COMMENT ON COLUMN hookwire.upstreams.claims IS 'Claims so far; the number of the latest is its fence.';
COMMENT ON COLUMN hookwire.upstreams.failures IS 'Failed requests in a row.';

CREATE INDEX upstreams_due ON hookwire.upstreams (due_at) WHERE due_at IS NOT NULL;

-- --- RabbitHub ---

CREATE TABLE hookwire.rabbithub_resources (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text NOT NULL DEFAULT 'default',
    vhost text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('x', 'q')),
    name text NOT NULL,
    exchange_type text CHECK (exchange_type IN ('direct', 'fanout', 'topic', 'headers')),
    source bigint REFERENCES hookwire.subscriptions (id),
    created_at timestamptz NOT NULL DEFAULT now(),
    mirror boolean,
    UNIQUE (tenant, vhost, kind, name),
    CHECK ((kind = 'x') = (exchange_type IS NOT NULL) AND (kind = 'q') = (source IS NOT NULL))
);
COMMENT ON TABLE hookwire.rabbithub_resources IS 'RabbitHub: exchanges and queues of each virtual host.';
COMMENT ON COLUMN hookwire.rabbithub_resources.kind IS 'x: exchange, q: queue.';
COMMENT ON COLUMN hookwire.rabbithub_resources.source IS 'Of a queue: the pull subscription that keeps its messages.';
COMMENT ON COLUMN hookwire.rabbithub_resources.mirror IS
    'Whether the exchange is mirrored to AMQP; NULL: as the hub''s setting says.';

CREATE TABLE hookwire.rabbithub_subscriptions (
    subscription_id bigint PRIMARY KEY REFERENCES hookwire.subscriptions (id) ON DELETE CASCADE,
    resource_id bigint NOT NULL REFERENCES hookwire.rabbithub_resources (id) ON DELETE CASCADE,
    hub_topic text NOT NULL,
    lease_seconds bigint NOT NULL,
    details jsonb NOT NULL DEFAULT '{}',
    queue_id bigint REFERENCES hookwire.rabbithub_resources (id) ON DELETE CASCADE,
    error_count bigint NOT NULL DEFAULT 0,
    first_error_at timestamptz,
    last_error_at timestamptz,
    last_error text,
    window_from timestamptz,
    window_errors bigint NOT NULL DEFAULT 0,
    told_until timestamptz
);
COMMENT ON TABLE hookwire.rabbithub_subscriptions IS
    'RabbitHub: what a subscription to an exchange or a queue has beside the common columns.';
COMMENT ON COLUMN hookwire.rabbithub_subscriptions.resource_id IS 'The exchange or queue.';
COMMENT ON COLUMN hookwire.rabbithub_subscriptions.hub_topic IS 'The routing pattern as it was asked for.';
COMMENT ON COLUMN hookwire.rabbithub_subscriptions.details IS 'contact, ha_mode and max_tps, as they were given.';
COMMENT ON COLUMN hookwire.rabbithub_subscriptions.queue_id IS 'Of a binding: the queue that gets the messages.';
COMMENT ON COLUMN hookwire.rabbithub_subscriptions.error_count IS 'Failed deliveries since it began.';
COMMENT ON COLUMN hookwire.rabbithub_subscriptions.window_from IS 'When the current window of the error policy began.';
COMMENT ON COLUMN hookwire.rabbithub_subscriptions.window_errors IS 'Failed deliveries in that window.';
COMMENT ON COLUMN hookwire.rabbithub_subscriptions.told_until IS 'The end of the lease that operators were notified of.';

CREATE INDEX rabbithub_subscriptions_resource ON hookwire.rabbithub_subscriptions (resource_id);
CREATE INDEX rabbithub_subscriptions_bindings ON hookwire.rabbithub_subscriptions (queue_id) WHERE queue_id IS NOT NULL;

-- Make the exchanges that every virtual host of a broker has (FX-04).
CREATE FUNCTION hookwire.ensure_built_in_exchanges(tenant text, vhost text) RETURNS void
LANGUAGE sql
BEGIN ATOMIC
    INSERT INTO hookwire.rabbithub_resources (tenant, vhost, kind, name, exchange_type)
    SELECT ensure_built_in_exchanges.tenant, ensure_built_in_exchanges.vhost, 'x', b.name, b.exchange_type
    FROM (VALUES ('', 'direct'), ('amq.direct', 'direct'), ('amq.fanout', 'fanout'), ('amq.topic', 'topic'),
                 ('amq.headers', 'headers'), ('amq.match', 'headers')) AS b(name, exchange_type)
    ON CONFLICT DO NOTHING;
END;

SELECT hookwire.ensure_built_in_exchanges('default', '/');

-- --- gold tables of the lake, beside the data of the hub (PL-03, PL-04, PL-X04) ---

CREATE TABLE hookwire.lake_metrics (
    tenant text NOT NULL,
    hour timestamptz NOT NULL,
    topic text NOT NULL,
    subscription text NOT NULL,
    attempts bigint NOT NULL,
    delivered bigint NOT NULL,
    retries bigint NOT NULL,
    dead bigint NOT NULL,
    p50_seconds double precision NOT NULL,
    p95_seconds double precision NOT NULL,
    p99_seconds double precision NOT NULL,
    tries_to_success double precision,
    oldest_seconds double precision,
    PRIMARY KEY (tenant, hour, topic, subscription)
);
COMMENT ON TABLE hookwire.lake_metrics IS 'Gold table of the lake: attempts by hour, topic and subscription.';
COMMENT ON COLUMN hookwire.lake_metrics.subscription IS 'The public id.';
COMMENT ON COLUMN hookwire.lake_metrics.attempts IS 'Attempts in the hour.';
COMMENT ON COLUMN hookwire.lake_metrics.delivered IS 'Attempts that succeeded.';
COMMENT ON COLUMN hookwire.lake_metrics.retries IS 'Attempts after the first of their delivery.';
COMMENT ON COLUMN hookwire.lake_metrics.dead IS 'Deliveries that were given up.';
COMMENT ON COLUMN hookwire.lake_metrics.p50_seconds IS 'The median of the attempts'' durations.';
COMMENT ON COLUMN hookwire.lake_metrics.p95_seconds IS 'The 95th percentile.';
COMMENT ON COLUMN hookwire.lake_metrics.p99_seconds IS 'The 99th percentile.';
COMMENT ON COLUMN hookwire.lake_metrics.tries_to_success IS
    'The mean number of the attempt that delivered; NULL: nothing was delivered.';
COMMENT ON COLUMN hookwire.lake_metrics.oldest_seconds IS 'How long the event that had waited longest had waited.';

CREATE TABLE hookwire.lake_backlog (
    tenant text NOT NULL,
    at timestamptz NOT NULL,
    topic text NOT NULL,
    subscription text NOT NULL,
    waiting bigint NOT NULL,
    oldest_seconds double precision NOT NULL,
    PRIMARY KEY (tenant, at, topic, subscription)
);
COMMENT ON TABLE hookwire.lake_backlog IS 'Gold table of the lake: deliveries that waited, by topic and subscription.';
COMMENT ON COLUMN hookwire.lake_backlog.at IS 'The moment of the count.';
COMMENT ON COLUMN hookwire.lake_backlog.waiting IS 'Deliveries that waited.';
COMMENT ON COLUMN hookwire.lake_backlog.oldest_seconds IS 'The age of the oldest of them.';

CREATE TABLE hookwire.lake_slo (
    tenant text NOT NULL,
    day date NOT NULL,
    subscription text NOT NULL,
    attempts bigint NOT NULL,
    delivered bigint NOT NULL,
    share double precision NOT NULL,
    target double precision NOT NULL,
    burn double precision NOT NULL,
    PRIMARY KEY (tenant, day, subscription)
);
COMMENT ON TABLE hookwire.lake_slo IS 'Gold table of the lake: service levels by day and subscription.';
COMMENT ON COLUMN hookwire.lake_slo.subscription IS 'The public id; empty: all of the tenant''s together.';
COMMENT ON COLUMN hookwire.lake_slo.attempts IS 'Attempts in the 28 days.';
COMMENT ON COLUMN hookwire.lake_slo.delivered IS 'Attempts that delivered.';
COMMENT ON COLUMN hookwire.lake_slo.share IS 'The share of attempts that delivered, over 28 days.';
COMMENT ON COLUMN hookwire.lake_slo.target IS 'The share that is promised.';
COMMENT ON COLUMN hookwire.lake_slo.burn IS 'The part of the error budget that is used up; above 1 it is exceeded.';

CREATE TABLE hookwire.lake_batches (
    job text NOT NULL,
    batch text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (job, batch)
);
COMMENT ON TABLE hookwire.lake_batches IS
    'Batches of the lake that are in the gold tables: a batch that is here is not stored again.';
COMMENT ON COLUMN hookwire.lake_batches.job IS 'The job of the lake that made the batch.';
COMMENT ON COLUMN hookwire.lake_batches.batch IS 'The batch''s name in the lake.';
