-- The relay: from the outbox to Kafka, AMQP and the fan-out, in order and without a loss.
--
--   outbox --> relay_batches (the manifest) --send--> purge: one entry of the ledger for each batch
--         '--> holds, held: a key that the sink refuses waits; relay_dead_letters: its record is given up
--
-- A sink's 64 shards are divided among partition groups. Each group has a lease, a term, a producer and holds of its own.

-- --- layouts and leases ---

-- A change of the groups or of the order scope takes a new number (RR-11).
CREATE TABLE hookwire.layouts (
    number smallint PRIMARY KEY,
    groups jsonb NOT NULL,
    order_scope text NOT NULL CHECK (order_scope IN ('topic_key', 'key')),
    hash_version smallint NOT NULL CHECK (hash_version = 1),
    created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE hookwire.layouts IS
    'Layouts of shards: shard s belongs to partition group s modulo the number of groups. A layout never changes.';
COMMENT ON COLUMN hookwire.layouts.number IS 'The layout''s number; the installation names the current one.';
COMMENT ON COLUMN hookwire.layouts.groups IS 'How many partition groups each sink has.';
COMMENT ON COLUMN hookwire.layouts.order_scope IS
    'What is kept in order: the key of a topic (topic_key) or a key in all topics (key).';
COMMENT ON COLUMN hookwire.layouts.hash_version IS 'Which hash of topic and key chooses the shard.';

INSERT INTO hookwire.layouts (number, groups, order_scope, hash_version) VALUES (1, '{"kafka": 4}', 'topic_key', 1);

-- Return the number of groups of a sink in a layout.
CREATE FUNCTION hookwire.groups_of(layout smallint, sink text) RETURNS smallint
LANGUAGE sql STABLE PARALLEL SAFE
RETURN (SELECT coalesce((l.groups ->> sink)::smallint, 1::smallint) FROM hookwire.layouts l WHERE l.number = layout);

CREATE FUNCTION hookwire.scope_of(layout smallint) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
RETURN (SELECT l.order_scope FROM hookwire.layouts l WHERE l.number = layout);

CREATE TABLE hookwire.relay_members (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    sinks text[] NOT NULL,
    until timestamptz NOT NULL
) WITH (fillfactor = 50);
COMMENT ON TABLE hookwire.relay_members IS 'Relay processes that are alive. Each holds a session lock on its id.';
COMMENT ON COLUMN hookwire.relay_members.id IS 'The number that the process has locked.';
COMMENT ON COLUMN hookwire.relay_members.sinks IS 'The sinks for which it stands as a candidate.';
COMMENT ON COLUMN hookwire.relay_members.until IS 'When it counts as dead unless it has sent another heartbeat.';

-- UNIQUE (sink, grp, term) makes a change of the term conflict with FOR KEY SHARE. Renewals of the lease do not (RR-08).
CREATE TABLE hookwire.relay_terms (
    sink text COLLATE "C" NOT NULL,
    grp smallint NOT NULL,
    layout smallint NOT NULL DEFAULT 1,
    term bigint NOT NULL DEFAULT 0,
    owner text,
    lease_until timestamptz NOT NULL DEFAULT '-infinity',
    batch_no bigint NOT NULL DEFAULT 0,
    member integer,
    is_open boolean NOT NULL DEFAULT true,
    PRIMARY KEY (sink, grp),
    UNIQUE (sink, grp, term)
) WITH (fillfactor = 50);
COMMENT ON TABLE hookwire.relay_terms IS
    'Leadership of each sink and partition group: the lease and the term that fences former leaders (RR-08).';
COMMENT ON COLUMN hookwire.relay_terms.grp IS 'The partition group.';
COMMENT ON COLUMN hookwire.relay_terms.layout IS 'The layout of the group''s current leader.';
COMMENT ON COLUMN hookwire.relay_terms.term IS
    'Rises with each change of leader; each deciding write locks the row with the term that it expects.';
COMMENT ON COLUMN hookwire.relay_terms.owner IS 'The name of the process that leads.';
COMMENT ON COLUMN hookwire.relay_terms.lease_until IS 'When another process may take over.';
COMMENT ON COLUMN hookwire.relay_terms.batch_no IS
    'The last batch number when the term began; relay_batch_numbers counts on from there.';
COMMENT ON COLUMN hookwire.relay_terms.member IS 'The relay process that holds the lease.';
COMMENT ON COLUMN hookwire.relay_terms.is_open IS 'False: the lease cannot be acquired, because the layout changes.';

-- --- ids that a process remembers (FC-01) ---

-- A relay's low-water marks, and the ids of the records that it has in flight, are true of one state of the database. After a
-- crash that lost WAL, on a promoted standby or after a restore the sequence repeats ids that were drawn before. Two things
-- make the memory of a process safe.
--
-- First, the ids below a mark are on disk before the mark is used. Setting this sequence writes WAL. The commit of that
-- statement flushes it, with all WAL before it: the ids that were drawn until then.
CREATE SEQUENCE hookwire.horizon AS bigint CACHE 1;

-- Second, each statement that uses such ids names the origin that they come from: the run of the server, and the file of the
-- sequence. A standby, a restored server and a restarted server are other runs. A new database, a schema that was restored in
-- place and a sequence that was restarted have another file.
CREATE FUNCTION hookwire.origin() RETURNS uuid
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT encode(substr(sha256(convert_to(concat_ws(' ', extract(epoch FROM pg_postmaster_start_time()),
               pg_relation_filepath('hookwire.event_id')), 'UTF8')), 1, 16), 'hex')::uuid
$$;

-- Return true, or raise: the ids are of another origin, or the sequence stands below an id that was passed as done. A caller
-- that remembers nothing yet has no origin.
CREATE FUNCTION hookwire.assert_origin(origin uuid, done_id bigint) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF origin <> hookwire.origin() OR done_id > (SELECT e.last_value FROM hookwire.event_id e) THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'event ids may begin anew: the server was restarted, replaced or restored since they were read';
    END IF;
    RETURN true;
END
$$;

-- --- batches ---

-- A manifest is written before its batch is sent (RR-06).
CREATE TABLE hookwire.relay_batches (
    sink text COLLATE "C" NOT NULL,
    layout smallint NOT NULL,
    grp smallint NOT NULL,
    batch_no bigint NOT NULL,
    shards smallint[] NOT NULL,
    ids bigint[] NOT NULL,
    PRIMARY KEY (sink, layout, grp, batch_no)
);
COMMENT ON TABLE hookwire.relay_batches IS 'Manifests: the records of each Kafka batch, stored before the batch is sent (RR-06).';
COMMENT ON COLUMN hookwire.relay_batches.grp IS 'The partition group.';
COMMENT ON COLUMN hookwire.relay_batches.batch_no IS 'The number that the batch carries into Kafka''s transaction.';
COMMENT ON COLUMN hookwire.relay_batches.shards IS 'The shard of each record, in the order of ids.';
COMMENT ON COLUMN hookwire.relay_batches.ids IS 'The events of the batch.';

-- The next number is a new row, and its predecessor goes in the same statement. If the number were a column of the term's row,
-- every batch would leave a version of that row behind. While an old snapshot keeps versions, each reader of the term would
-- read past all of them (RR-07). Here the last number is the first that is found from above.
CREATE TABLE hookwire.relay_batch_numbers (
    sink text COLLATE "C" NOT NULL,
    layout smallint NOT NULL,
    grp smallint NOT NULL,
    batch_no bigint NOT NULL,
    PRIMARY KEY (sink, layout, grp, batch_no)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0);
COMMENT ON TABLE hookwire.relay_batch_numbers IS
    'The last batch number of each partition group: the next one is a new row, and replaces its predecessor.';
COMMENT ON COLUMN hookwire.relay_batch_numbers.grp IS 'The partition group.';
COMMENT ON COLUMN hookwire.relay_batch_numbers.batch_no IS 'The last number that was drawn.';

-- Return the last number of a group, 0 where none was drawn. VOLATILE: it sees rows that were committed while it waited.
CREATE FUNCTION hookwire.last_batch_no(sink text, layout smallint, grp smallint) RETURNS bigint
LANGUAGE sql VOLATILE
RETURN coalesce((SELECT n.batch_no FROM hookwire.relay_batch_numbers n
                 WHERE n.sink = last_batch_no.sink AND n.layout = last_batch_no.layout AND n.grp = last_batch_no.grp
                 ORDER BY n.batch_no DESC LIMIT 1), 0);

-- A term begins with the last number on its row. A new layout begins with a number of its own.
CREATE FUNCTION hookwire.note_batch_no() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.batch_no := greatest(NEW.batch_no, hookwire.last_batch_no(NEW.sink, NEW.layout, NEW.grp));
    RETURN NEW;
END $$;

CREATE TRIGGER note_batch_no BEFORE UPDATE OF term ON hookwire.relay_terms
    FOR EACH ROW EXECUTE FUNCTION hookwire.note_batch_no();

-- --- refused records ---

-- A topic can be held by several groups at a time, each for its own keys (RR-07, RO-08).
CREATE TABLE hookwire.holds (
    sink text COLLATE "C" NOT NULL,
    tenant text NOT NULL,
    topic text NOT NULL,
    key text NOT NULL DEFAULT '',
    reason text NOT NULL,
    detail text NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    since timestamptz NOT NULL DEFAULT now(),
    probe_at timestamptz NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    grp smallint NOT NULL DEFAULT 0,
    PRIMARY KEY (sink, grp, tenant, topic, key),
    CONSTRAINT holds_id UNIQUE (id)
);
COMMENT ON TABLE hookwire.holds IS
    'Keys and topics that a sink does not carry on, because it refused a record. Their records wait in held.';
COMMENT ON COLUMN hookwire.holds.key IS 'The key that is held; empty: the whole topic.';
COMMENT ON COLUMN hookwire.holds.reason IS 'The kind of refusal.';
COMMENT ON COLUMN hookwire.holds.attempts IS 'How often the record was probed.';
COMMENT ON COLUMN hookwire.holds.since IS 'When the hold began.';
COMMENT ON COLUMN hookwire.holds.probe_at IS 'When the sink is asked again.';
COMMENT ON COLUMN hookwire.holds.id IS 'The event that was refused.';
COMMENT ON COLUMN hookwire.holds.grp IS 'The partition group, each with its own progress.';

CREATE TABLE hookwire.held (
    sink text COLLATE "C" NOT NULL,
    tenant text NOT NULL,
    topic text NOT NULL,
    key text NOT NULL DEFAULT '',
    id bigint NOT NULL,
    shard smallint NOT NULL,
    layout smallint NOT NULL,
    grp smallint NOT NULL DEFAULT 0,
    PRIMARY KEY (sink, grp, tenant, topic, key, id)
);
COMMENT ON TABLE hookwire.held IS 'Outbox records behind a hold; they are drained in order before the hold is lifted.';
COMMENT ON COLUMN hookwire.held.key IS 'As in holds.';
COMMENT ON COLUMN hookwire.held.id IS 'The id of the event.';
COMMENT ON COLUMN hookwire.held.shard IS 'As in outbox.';
COMMENT ON COLUMN hookwire.held.layout IS 'As in outbox.';
COMMENT ON COLUMN hookwire.held.grp IS 'The partition group of the hold.';

CREATE INDEX held_id ON hookwire.held (sink, id);

CREATE TABLE hookwire.relay_dead_letters (
    sink text COLLATE "C" NOT NULL,
    event_id bigint NOT NULL,
    tenant text NOT NULL,
    topic text NOT NULL,
    key text,
    shard smallint NOT NULL,
    layout smallint NOT NULL,
    reason text NOT NULL,
    detail text NOT NULL,
    died_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (event_id, sink)
);
COMMENT ON TABLE hookwire.relay_dead_letters IS
    'Records of Kafka and AMQP that were given up. They keep their place in the outbox''s order.';
COMMENT ON COLUMN hookwire.relay_dead_letters.shard IS 'As in outbox.';
COMMENT ON COLUMN hookwire.relay_dead_letters.layout IS 'As in outbox.';
COMMENT ON COLUMN hookwire.relay_dead_letters.reason IS 'The kind of refusal.';

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
COMMENT ON TABLE hookwire.compat_parked IS
    'Compat mode: keys of goharvest''s table whose record Kafka refused. Deleting a row tries the key again at once.';
COMMENT ON COLUMN hookwire.compat_parked.outbox IS 'goharvest''s table, quoted as PostgreSQL quotes it.';
COMMENT ON COLUMN hookwire.compat_parked.key IS 'The key of the refused record.';
COMMENT ON COLUMN hookwire.compat_parked.record_id IS 'The id of the refused record in that table.';
COMMENT ON COLUMN hookwire.compat_parked.reason IS 'The kind of refusal.';
COMMENT ON COLUMN hookwire.compat_parked.attempts IS 'How often the record was probed.';
COMMENT ON COLUMN hookwire.compat_parked.since IS 'When the key was parked.';
COMMENT ON COLUMN hookwire.compat_parked.probe_at IS 'When Kafka is asked again.';

-- --- the ledger (PL-A01..A05) ---
--
-- How many events were accepted for each sink and how many of them have left the outbox, with checksums that do not depend on
-- order. The ledger outlives the events, and stays small.
--
-- Publishing writes nothing for it (RR-04). The owed side is folded from the events themselves, up to an id below which no
-- event can appear any more (RR-07). A statement that deletes outbox or held records leaves one entry for its whole batch.
-- Entries are folded too, and deleted.

-- The checksums of the ledger are sums of this hash, modulo 2^64.
CREATE FUNCTION hookwire.ledger_hash(id bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN ('x' || left(encode(sha256(int8send(id)), 'hex'), 16))::bit(64)::bigint;

CREATE FUNCTION hookwire.ledger_sum(total numeric) RETURNS numeric
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN mod(mod(coalesce(total, 0), 18446744073709551616) + 18446744073709551616, 18446744073709551616);

-- Return the hash of an event as Kafka carries it (FP-05). It is the first 8 bytes of a SHA-256: of the event's members, a
-- separator between each two, then of its payload. The pipeline computes the same from a record (pipeline/audit/content.py).
-- An audit of the lake proves by it that the records hold the contents, and not only that they are there.
CREATE FUNCTION hookwire.content_hash(
    id bigint, accepted_at timestamptz, ordered boolean, key text, content_type text, headers jsonb, payload bytea
) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN ('x' || left(encode(sha256(convert_to(concat_ws(
        chr(31), id, (extract(epoch FROM accepted_at) * 1000000)::bigint, CASE WHEN ordered THEN id::text ELSE '-' END,
        coalesce('=' || key, '-'), coalesce('=' || content_type, '-'),
        CASE WHEN headers = '{}' THEN '' ELSE (
            SELECT coalesce(string_agg(n.name || '=' || h.value, chr(30) ORDER BY h.place), '')
            FROM jsonb_each_text(headers) WITH ORDINALITY AS h(name, value, place)
            CROSS JOIN LATERAL (SELECT regexp_replace(h.name, '^ce-', 'ce_')) AS n(name)
            WHERE n.name = 'hookwire-hops' OR NOT starts_with(n.name, 'hookwire-')) END,
        '='), 'UTF8') || payload), 'hex'), 16))::bit(64)::bigint;

CREATE TABLE hookwire.ledger_entries (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sink text COLLATE "C" NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('sent', 'dead', 'revived')),
    ids bigint[] NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0);
-- PostgreSQL 15 knows no STORAGE clause in CREATE TABLE.
ALTER TABLE hookwire.ledger_entries ALTER COLUMN ids SET STORAGE MAIN;
COMMENT ON TABLE hookwire.ledger_entries IS
    'What left the outbox: one row for each batch, written in the statement that deletes, folded into the ledger later.';
COMMENT ON COLUMN hookwire.ledger_entries.outcome IS 'sent, dead or revived.';
COMMENT ON COLUMN hookwire.ledger_entries.ids IS 'The events of the batch.';

-- One row for each cell. The sink '' counts every accepted event, also an event without a sink; bucket is id & 3.
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
    owed_content numeric(20) NOT NULL DEFAULT 0,
    content_count bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (hour, sink, tenant, topic, bucket)
) WITH (fillfactor = 70);
COMMENT ON TABLE hookwire.ledger IS
    'How many events were accepted for each sink and how many left the outbox, with checksums that need no order.';
COMMENT ON COLUMN hookwire.ledger.sink IS 'Empty: all accepted events.';
COMMENT ON COLUMN hookwire.ledger.hour IS 'The hour of acceptance.';
COMMENT ON COLUMN hookwire.ledger.bucket IS 'The event id modulo 4.';
COMMENT ON COLUMN hookwire.ledger.owed_count IS 'Events that were accepted for the sink.';
COMMENT ON COLUMN hookwire.ledger.owed_sum IS 'The sum of their ids.';
COMMENT ON COLUMN hookwire.ledger.owed_min IS 'The lowest of their ids.';
COMMENT ON COLUMN hookwire.ledger.owed_max IS 'The highest of their ids.';
COMMENT ON COLUMN hookwire.ledger.sent_count IS 'Events that the sink confirmed.';
COMMENT ON COLUMN hookwire.ledger.dead_count IS 'Events that were given up.';
COMMENT ON COLUMN hookwire.ledger.settled_sum IS 'The sum of the ids that were confirmed or given up.';
COMMENT ON COLUMN hookwire.ledger.settled_min IS 'The lowest of these ids.';
COMMENT ON COLUMN hookwire.ledger.settled_max IS 'The highest of these ids.';
COMMENT ON COLUMN hookwire.ledger.owed_content IS 'The sum of the hashes of owed events.';
COMMENT ON COLUMN hookwire.ledger.content_count IS 'Of how many events owed_content is the sum.';

CREATE INDEX ledger_unequal ON hookwire.ledger (hour)
    WHERE sink <> '' AND (owed_count, owed_sum, owed_min, owed_max)
        IS DISTINCT FROM (sent_count + dead_count, settled_sum, settled_min, settled_max);

-- Events up to through_id are folded; through_at is when that id was the last that was drawn. A mark waits for every
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
COMMENT ON TABLE hookwire.ledger_cursor IS 'How far events are folded into the ledger.';
COMMENT ON COLUMN hookwire.ledger_cursor.singleton IS 'Always true: there is one row.';
COMMENT ON COLUMN hookwire.ledger_cursor.since_at IS 'Hours that began before are not judged.';
COMMENT ON COLUMN hookwire.ledger_cursor.through_id IS 'Events up to this id are folded.';
COMMENT ON COLUMN hookwire.ledger_cursor.through_at IS 'When that id was the last one drawn.';
COMMENT ON COLUMN hookwire.ledger_cursor.mark_id IS 'The id that is folded to next, once no transaction before mark_xid runs.';
COMMENT ON COLUMN hookwire.ledger_cursor.mark_xid IS 'The transaction id that was drawn after mark_id.';

INSERT INTO hookwire.ledger_cursor (since_at, through_id, through_at)
SELECT clock_timestamp(), CASE WHEN is_called THEN last_value ELSE last_value - 1 END, clock_timestamp()
FROM hookwire.event_id;
