-- API keys: who may do what at the front door. A key is known by the SHA-256 of its text; the text is shown once (SE-04).
CREATE TABLE hookwire.api_keys (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    public_id text NOT NULL UNIQUE,
    tenant text NOT NULL DEFAULT 'default',
    name text NOT NULL,
    digest bytea NOT NULL UNIQUE CHECK (length(digest) = 32),
    scopes text[] NOT NULL CHECK (scopes <@ ARRAY['publish', 'subscribe', 'read', 'admin'] AND cardinality(scopes) > 0),
    topics text[] CHECK (cardinality(topics) > 0), -- patterns; NULL: every topic
    expires_at timestamptz,
    revoked_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now()
);
