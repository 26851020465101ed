-- Inbound sources: doors for webhooks that others send.

CREATE TABLE hookwire.inbound_sources (
    name text PRIMARY KEY,
    preset text NOT NULL,
    settings jsonb NOT NULL,
    remember_seconds integer NOT NULL,
    rate_per_minute integer,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE hookwire.inbound_sources IS 'Doors for webhooks that others send, by name.';
COMMENT ON COLUMN hookwire.inbound_sources.preset IS 'The sender, as presets.json names it.';
COMMENT ON COLUMN hookwire.inbound_sources.settings IS 'What replaces parts of the preset: topic, references, headers, scheme.';
COMMENT ON COLUMN hookwire.inbound_sources.remember_seconds IS 'How long delivery ids are kept: longer than this sender repeats.';
COMMENT ON COLUMN hookwire.inbound_sources.rate_per_minute IS 'Verified requests that are taken in a minute; NULL: any number.';
COMMENT ON COLUMN hookwire.inbound_sources.changed_at IS 'When its settings have changed last.';

CREATE TABLE hookwire.inbound_secrets (
    source text NOT NULL REFERENCES hookwire.inbound_sources (name) ON DELETE CASCADE,
    number integer NOT NULL,
    key_id text NOT NULL,
    sealed bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz,
    PRIMARY KEY (source, number)
);
COMMENT ON TABLE hookwire.inbound_secrets IS 'The secrets of doors, encrypted as those of subscriptions are; two at most.';
COMMENT ON COLUMN hookwire.inbound_secrets.source IS 'The door.';
COMMENT ON COLUMN hookwire.inbound_secrets.number IS 'Rises with each secret of the door.';
COMMENT ON COLUMN hookwire.inbound_secrets.key_id IS 'The key of the secret box that sealed it.';
COMMENT ON COLUMN hookwire.inbound_secrets.sealed IS 'AES-GCM ciphertext, bound to door and number.';
COMMENT ON COLUMN hookwire.inbound_secrets.expires_at IS 'When it ends, because another secret has replaced it; NULL: not at all.';

CREATE TABLE hookwire.inbound_requests (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    source text NOT NULL REFERENCES hookwire.inbound_sources (name) ON DELETE CASCADE,
    outcome text NOT NULL CHECK (outcome IN ('accepted', 'refused')),
    arrived_at timestamptz NOT NULL,
    address text NOT NULL,
    bytes integer NOT NULL,
    delivery_id text,
    event_id bigint,
    topic text,
    reason text,
    detail text,
    body bytea
);
CREATE INDEX inbound_requests_latest ON hookwire.inbound_requests (source, outcome, arrived_at);
COMMENT ON TABLE hookwire.inbound_requests IS 'The last requests at each door, 20 accepted and 20 refused, for people who look for a fault.';
COMMENT ON COLUMN hookwire.inbound_requests.source IS 'The door.';
COMMENT ON COLUMN hookwire.inbound_requests.outcome IS 'accepted or refused.';
COMMENT ON COLUMN hookwire.inbound_requests.arrived_at IS 'When it was judged, by the clock of the process.';
COMMENT ON COLUMN hookwire.inbound_requests.address IS 'The address of the sender, or of the proxy before the hub.';
COMMENT ON COLUMN hookwire.inbound_requests.bytes IS 'Size of the body.';
COMMENT ON COLUMN hookwire.inbound_requests.delivery_id IS 'The delivery id of the sender; NULL before the signature was right.';
COMMENT ON COLUMN hookwire.inbound_requests.event_id IS 'The event of an accepted request; NULL for a handshake.';
COMMENT ON COLUMN hookwire.inbound_requests.topic IS 'The topic of this event.';
COMMENT ON COLUMN hookwire.inbound_requests.reason IS 'Why it was refused, in one word, as in the metrics.';
COMMENT ON COLUMN hookwire.inbound_requests.detail IS 'The same for people.';
COMMENT ON COLUMN hookwire.inbound_requests.body IS 'The beginning of a refused body.';
