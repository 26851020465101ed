-- The answers to requests with an Idempotency-Key, beside what the requests made.

CREATE TABLE hookwire.kept_answers (
    tenant text NOT NULL,
    caller text NOT NULL,
    path text NOT NULL,
    key text NOT NULL,
    fingerprint bytea NOT NULL,
    status smallint NOT NULL,
    headers text[] NOT NULL,
    body bytea NOT NULL,
    answered_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant, caller, path, key)
);
COMMENT ON TABLE hookwire.kept_answers IS 'Answers of the HTTP API by Idempotency-Key, committed with what the request made.';
COMMENT ON COLUMN hookwire.kept_answers.caller IS 'Id of the API key that sent the request; empty without one.';
COMMENT ON COLUMN hookwire.kept_answers.path IS 'Path as it was sent: a key counts for its caller and path.';
COMMENT ON COLUMN hookwire.kept_answers.fingerprint IS 'A hash of the request: another request with the same key is a conflict.';
COMMENT ON COLUMN hookwire.kept_answers.headers IS 'Names and values by turns.';
COMMENT ON COLUMN hookwire.kept_answers.body IS 'The body, without a secret that is shown once.';

CREATE INDEX kept_answers_age ON hookwire.kept_answers (answered_at);
