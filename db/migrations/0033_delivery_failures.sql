-- Who has failed lately, as all workers together count it (WH-I07, WH-I08). Most subscriptions have no row.
--
-- failures: in a row, up to now; failures_before: as it was before the last settlement, which tells what levels that one
-- passed. settled_at and failed: the last attempts, oldest first, by which a breaker is judged; empty when it has opened.
CREATE TABLE hookwire.delivery_failures (
    subscription_id bigint PRIMARY KEY,
    tenant text NOT NULL DEFAULT 'default',
    failures integer NOT NULL,
    failures_before integer NOT NULL DEFAULT 0,
    succeeded_at timestamptz,
    settled_at timestamptz[] NOT NULL,
    failed boolean[] NOT NULL
) WITH (fillfactor = 50);
