-- The lake's gold tables beside the hub's own, so that whoever may read the database can ask them (PL-03, PL-04, PL-X04).

CREATE TABLE hookwire.lake_metrics (
    tenant text NOT NULL,
    hour timestamptz NOT NULL,
    topic text NOT NULL,
    subscription text NOT NULL,                 -- its public id
    attempts bigint NOT NULL,
    delivered bigint NOT NULL,
    retries bigint NOT NULL,
    dead bigint NOT NULL,
    p50_seconds double precision NOT NULL,
    p95_seconds double precision NOT NULL,
    p99_seconds double precision NOT NULL,
    tries_to_success double precision,          -- NULL: nothing was delivered
    oldest_seconds double precision,
    PRIMARY KEY (tenant, hour, topic, subscription)
);

CREATE TABLE hookwire.lake_backlog (
    tenant text NOT NULL,
    at timestamptz NOT NULL,
    topic text NOT NULL,
    subscription text NOT NULL,
    waiting bigint NOT NULL,
    oldest_seconds double precision NOT NULL,
    PRIMARY KEY (tenant, at, topic, subscription)
);

CREATE TABLE hookwire.lake_slo (
    tenant text NOT NULL,
    day date NOT NULL,
    subscription text NOT NULL,                 -- '': all of the tenant's together
    attempts bigint NOT NULL,
    delivered bigint NOT NULL,
    share double precision NOT NULL,
    target double precision NOT NULL,
    burn double precision NOT NULL,
    PRIMARY KEY (tenant, day, subscription)
);

-- Which entries of the lake's log are in the tables above: one that is here is not put in again.
CREATE TABLE hookwire.lake_batches (
    job text NOT NULL,
    batch text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (job, batch)
);
