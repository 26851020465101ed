-- Gates: what a claim passes where a subscription has a rate limit, or its breaker has tripped (WH-I06, WH-I07). One row
-- for the whole fleet; most subscriptions have none.
ALTER TABLE hookwire.subscriptions
    ADD COLUMN rate_per_second double precision CHECK (rate_per_second > 0),
    ADD COLUMN rate_burst integer CHECK (rate_burst > 0);

-- tokens: as of refilled_at. trips: how often the breaker has opened since a success; with trips, one delivery at a time
-- passes, as a probe, once open_until is over.
CREATE TABLE hookwire.delivery_gates (
    subscription_id bigint PRIMARY KEY,
    tenant text NOT NULL DEFAULT 'default',
    tokens double precision NOT NULL DEFAULT 0,
    refilled_at timestamptz NOT NULL DEFAULT now(),
    trips integer NOT NULL DEFAULT 0,
    open_until timestamptz,
    failing_since timestamptz
) WITH (fillfactor = 50);
