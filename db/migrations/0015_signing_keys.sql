-- Signing keys are rotated with an overlap (WH-S17); headers of a subscriber's own, such as Authorization, are sealed as
-- its keys are. header_names is what may be shown of them.
ALTER TABLE hookwire.subscription_secrets ADD COLUMN created_at timestamptz NOT NULL DEFAULT now();

ALTER TABLE hookwire.subscriptions
    ADD COLUMN header_names text[],
    ADD COLUMN headers_key_id text,
    ADD COLUMN headers_sealed bytea,
    ADD CONSTRAINT subscriptions_headers_check
        CHECK ((headers_sealed IS NULL) = (headers_key_id IS NULL) AND (headers_sealed IS NULL) = (header_names IS NULL));
