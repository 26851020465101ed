-- Partition groups: a sink's 64 shards are shared out among N groups, each with a seat, a term, a producer and holds of
-- its own; the relay processes share the seats (RO-05, RR-11).

-- What a layout number means. Shard s belongs to group s mod N. A layout never changes; the installation's moves on.
CREATE TABLE hookwire.layouts (
    number smallint PRIMARY KEY,
    groups jsonb NOT NULL,                          -- per sink; one that is not named has one group
    order_scope text NOT NULL CHECK (order_scope IN ('topic_key', 'key')),
    hash_version smallint NOT NULL CHECK (hash_version = 1),
    created_at timestamptz NOT NULL DEFAULT now()
);

-- A relay of the version before has led Kafka with one group: then it stays at one until somebody changes the layout.
INSERT INTO hookwire.layouts (number, groups, order_scope, hash_version)
SELECT i.layout,
       CASE WHEN EXISTS (SELECT FROM hookwire.relay_terms WHERE sink = 'kafka') THEN '{}' ELSE '{"kafka": 4}' END::jsonb,
       'topic_key', 1
FROM hookwire.installation i;

-- The relay processes. One that is alive has a session lock on its id and a time that has not come.
CREATE TABLE hookwire.relay_members (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    sinks text[] NOT NULL,                          -- those that it has addresses for
    until timestamptz NOT NULL
) WITH (fillfactor = 50);

-- member: who holds the seat, where it was taken under a lease. is_open: a closed seat can't be taken (RR-11).
ALTER TABLE hookwire.relay_terms
    ADD COLUMN member integer,
    ADD COLUMN is_open boolean NOT NULL DEFAULT true;

-- The groups of a sink in a layout.
CREATE FUNCTION hookwire.groups_of(layout smallint, sink text) RETURNS smallint
LANGUAGE sql STABLE PARALLEL SAFE
RETURN (SELECT coalesce((l.groups ->> sink)::smallint, 1::smallint) FROM hookwire.layouts l WHERE l.number = layout);

-- A topic may be held by several groups at a time, each for its own keys and with its own progress.
ALTER TABLE hookwire.holds ADD COLUMN grp smallint NOT NULL DEFAULT 0;
ALTER TABLE hookwire.holds DROP CONSTRAINT holds_pkey, ADD PRIMARY KEY (sink, grp, tenant, topic, key);
ALTER TABLE hookwire.held ADD COLUMN grp smallint NOT NULL DEFAULT 0;
ALTER TABLE hookwire.held DROP CONSTRAINT held_pkey, ADD PRIMARY KEY (sink, grp, tenant, topic, key, id);
