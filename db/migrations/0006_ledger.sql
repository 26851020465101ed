-- The ledger: how many events were accepted for each sink and how many of them have left the outbox, with checksums
-- that do not depend on order (PL-A01..A05). It outlives the events, and stays small.
--
-- Publishing writes nothing for it (RR-04): the owed side is folded from the events themselves, up to an id below which
-- no event can appear any more (RR-07). Whatever deletes an outbox record or a held one leaves one entry for its whole
-- batch in the same statement; entries are folded too, and deleted.
CREATE FUNCTION hookwire.ledger_hash(id bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN ('x' || left(encode(sha256(int8send(id)), 'hex'), 16))::bit(64)::bigint;

CREATE FUNCTION hookwire.ledger_sum(total numeric) RETURNS numeric
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN mod(mod(coalesce(total, 0), 18446744073709551616) + 18446744073709551616, 18446744073709551616);

CREATE TABLE hookwire.ledger_entries (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sink text COLLATE "C" NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('sent', 'dead')),
    ids bigint[] NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE hookwire.ledger_entries ALTER COLUMN ids SET STORAGE MAIN;

-- One row per cell. sink '' counts every accepted event, also those that nobody asked for; bucket is id & 3.
CREATE TABLE hookwire.ledger (
    sink text COLLATE "C" NOT NULL,
    tenant text NOT NULL,
    topic text NOT NULL,
    hour timestamptz NOT NULL,
    bucket smallint NOT NULL,
    owed_count bigint NOT NULL DEFAULT 0,
    owed_sum numeric(20) NOT NULL DEFAULT 0,
    owed_min bigint,
    owed_max bigint,
    sent_count bigint NOT NULL DEFAULT 0,
    dead_count bigint NOT NULL DEFAULT 0,
    settled_sum numeric(20) NOT NULL DEFAULT 0,
    settled_min bigint,
    settled_max bigint,
    PRIMARY KEY (hour, sink, tenant, topic, bucket)
) WITH (fillfactor = 70);

CREATE INDEX ledger_unequal ON hookwire.ledger (hour)
    WHERE sink <> '' AND (owed_count, owed_sum, owed_min, owed_max)
        IS DISTINCT FROM (sent_count + dead_count, settled_sum, settled_min, settled_max);

-- Events up to through_id are folded; through_at is when that id was the last one drawn. A mark waits for every
-- transaction before mark_xid to end. Hours that began before since_at are not judged.
CREATE TABLE hookwire.ledger_cursor (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    since_at timestamptz NOT NULL,
    through_id bigint NOT NULL,
    through_at timestamptz NOT NULL,
    mark_id bigint,
    mark_at timestamptz,
    mark_xid xid8
);
INSERT INTO hookwire.ledger_cursor (since_at, through_id, through_at)
SELECT clock_timestamp(), CASE WHEN is_called THEN last_value ELSE last_value - 1 END, clock_timestamp()
FROM hookwire.event_id;
