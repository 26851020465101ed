-- WebSub requests: accepted by POST /hub, verified by a GET to the callback (room hub).

-- One request. Open while requested or verifying; decided rows stay for a day, so that people can see what happened.
CREATE TABLE hookwire.intents (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,     -- rises in the order of acceptance per callback host (WS-103)
    tenant text NOT NULL DEFAULT 'default',
    mode text NOT NULL CHECK (mode IN ('subscribe', 'unsubscribe')),
    topic text NOT NULL,                                    -- the hosted topic's name
    topic_url text NOT NULL,                                -- as sent: it goes back in the verification (WS-40)
    callback text NOT NULL,                                 -- raw, as sent (WS-24)
    callback_host text NOT NULL,
    identity bytea NOT NULL CHECK (length(identity) = 32),  -- hub.topic_url.identity: the pair (WS-20, WS-23)
    lease_seconds bigint,                                   -- granted; NULL to unsubscribe
    signature_method text NOT NULL,
    verify_token text,
    key_id text,                                            -- with sealed: the new secret, until decided
    sealed bytea,
    state text NOT NULL DEFAULT 'requested' CHECK (state IN ('requested', 'verifying', 'verified', 'failed', 'superseded')),
    -- Not before; while verifying, the end of the claim: a process that dies leaves a row that is due again by itself.
    due_at timestamptz NOT NULL,
    attempts integer NOT NULL DEFAULT 0,                    -- claims so far; the number of the latest is its fence
    reason text,
    created_at timestamptz NOT NULL DEFAULT now(),
    decided_at timestamptz,
    CHECK ((key_id IS NULL) = (sealed IS NULL)),
    CHECK ((lease_seconds IS NULL) = (mode = 'unsubscribe'))
);

CREATE INDEX intents_due ON hookwire.intents (due_at) WHERE state IN ('requested', 'verifying');
CREATE INDEX intents_in_flight ON hookwire.intents (callback_host, mode) WHERE state = 'verifying';
CREATE INDEX intents_pair ON hookwire.intents (tenant, identity, id);
CREATE INDEX intents_decided ON hookwire.intents (decided_at) WHERE decided_at IS NOT NULL;

-- Tokens for verification GETs (WS-101, AB-01). host '' is a tenant's own bucket, tenant '' a host's, all tenants together.
CREATE TABLE hookwire.verification_buckets (
    tenant text NOT NULL,
    host text NOT NULL,
    tokens double precision NOT NULL,
    refilled_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, host),
    CHECK ((tenant = '') <> (host = ''))
) WITH (fillfactor = 50);

-- The pair is what its identity says, not how its URLs are spelled; and 32 bytes are a smaller key than two URLs.
ALTER TABLE hookwire.subscriptions ADD COLUMN identity bytea CHECK (length(identity) = 32);
DROP INDEX hookwire.subscriptions_websub;
CREATE UNIQUE INDEX subscriptions_websub ON hookwire.subscriptions (tenant, identity)
    WHERE protocol = 'websub' AND state IN ('active', 'disabled');

-- Whose lease has ended, and who ended lately: their queues are dropped (DL-10).
CREATE INDEX subscriptions_lease ON hookwire.subscriptions (lease_until)
    WHERE protocol = 'websub' AND state IN ('active', 'disabled');
CREATE INDEX subscriptions_ended ON hookwire.subscriptions (updated_at)
    WHERE protocol = 'websub' AND state IN ('expired', 'denied', 'deleted');
