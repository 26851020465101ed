-- Topics of other publishers: named by their URL, fetched when somebody pings (room hub).

CREATE TABLE hookwire.foreign_topics (
    tenant text NOT NULL DEFAULT 'default',
    topic text NOT NULL,                        -- hub.topic_url.foreign_name(url): what events and subscriptions call it
    url text NOT NULL,                          -- as first named; where it is fetched
    self_url text,                              -- as the content advertises itself and its hub (WS-53)
    hub_url text,
    feed_diff boolean NOT NULL DEFAULT false,   -- Atom and RSS: distribute new and changed entries only (WS-52)
    always_deliver boolean NOT NULL DEFAULT false,  -- also what has not changed (WS-82)
    -- Pings are counted; what the last good fetch began with tells whether one came in the meantime (WS-80).
    pings bigint NOT NULL DEFAULT 0,
    pings_fetched bigint NOT NULL DEFAULT 0,
    due_at timestamptz,                         -- NULL: nothing to fetch
    claimed_until timestamptz,                  -- one fetch at a time
    claims bigint NOT NULL DEFAULT 0,           -- so far; the number of the latest is its fence
    failures integer NOT NULL DEFAULT 0,        -- in a row
    etag text,
    last_modified text,
    digest bytea,                               -- SHA-256 of type and content
    entries jsonb,                              -- of a feed: digests by id, for the next diff
    last_status smallint,
    last_error text,
    fetched_at timestamptz,
    changed_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, topic)
);

CREATE INDEX foreign_topics_due ON hookwire.foreign_topics (due_at) WHERE due_at IS NOT NULL;
