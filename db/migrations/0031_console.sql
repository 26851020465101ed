-- The console: browsers that have signed in with an API key, and indexes of its lists.

CREATE TABLE hookwire.console_sessions (
    digest bytea PRIMARY KEY,
    key_id bigint NOT NULL REFERENCES hookwire.api_keys (id) ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL
);
COMMENT ON TABLE hookwire.console_sessions IS 'Browsers that have signed in to the console. A session ends with its key.';
COMMENT ON COLUMN hookwire.console_sessions.digest IS 'SHA-256 of the token in the cookie; the token itself is not stored.';
COMMENT ON COLUMN hookwire.console_sessions.key_id IS 'The API key with which the browser signed in; its rights are read anew.';

CREATE INDEX console_sessions_of_key ON hookwire.console_sessions (key_id, created_at);
CREATE INDEX console_sessions_age ON hookwire.console_sessions (expires_at);

-- Lists of the console that are narrowed to what is rare among many rows.
CREATE INDEX IF NOT EXISTS dead_letters_kind ON hookwire.dead_letters (kind, event_id, subscription_id);
CREATE INDEX IF NOT EXISTS jobs_of_people ON hookwire.jobs (state, seq) WHERE state IN ('assigned', 'review', 'retryable');
