-- Compat mode: what hookwire keeps about goharvest's own table, which has no columns for it (RL-07, RO-08).

-- A key whose record Kafka refused waits here; its rows stay, unmarked, in goharvest's table. `outbox` is the table as
-- PostgreSQL quotes it. A row deleted here is tried again at once; so is one whose probe_at is moved.
CREATE TABLE hookwire.compat_parked (
    outbox text NOT NULL,
    key text NOT NULL,
    tenant text NOT NULL DEFAULT 'default',
    record_id bigint NOT NULL,
    topic text NOT NULL,
    reason text NOT NULL,
    detail text NOT NULL,
    attempts integer NOT NULL DEFAULT 1,
    since timestamptz NOT NULL DEFAULT now(),
    probe_at timestamptz NOT NULL,
    PRIMARY KEY (outbox, key)
);
