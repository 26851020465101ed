-- This hub as a subscriber of other hubs: a foreign topic that is delivered here instead of being fetched (WS-87..WS-99).

CREATE TABLE hookwire.upstreams (
    tenant text NOT NULL DEFAULT 'default',
    topic text NOT NULL,                        -- the foreign topic's name
    url text NOT NULL,                          -- where it is discovered
    token text NOT NULL UNIQUE,                 -- the unguessable part of our callback (WS-96)
    key_id text NOT NULL,                       -- with sealed: our hub.secret
    sealed bytea NOT NULL,
    hub_url text,                               -- as discovered last
    self_url text,
    state text NOT NULL DEFAULT 'wanted' CHECK (state IN ('wanted', 'requested', 'active', 'denied', 'ended')),
    reason text,
    lease_until timestamptz,
    -- When the topic is discovered and its hub is asked (again); NULL: not by itself.
    due_at timestamptz DEFAULT now(),
    claimed_until timestamptz,
    claims bigint NOT NULL DEFAULT 0,
    failures integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, topic)
);

CREATE INDEX upstreams_due ON hookwire.upstreams (due_at) WHERE due_at IS NOT NULL;
