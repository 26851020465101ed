-- A refused record of a Kafka source may hold its key: later records of the key are kept behind it, in their order.

ALTER TABLE hookwire.source_refusals ADD COLUMN held_keys text[];
COMMENT ON COLUMN hookwire.source_refusals.held_keys IS 'The ordering keys that wait for this record; NULL if it holds none.';
CREATE INDEX IF NOT EXISTS source_refusals_held ON hookwire.source_refusals (source, partition, id) WHERE held_keys IS NOT NULL;

-- The keys that the caller takes for held, and those that a refused record holds. A turn is waited for longer, because a
-- batch may have more records now.

DROP FUNCTION hookwire.take_records(text,integer,bigint,bigint,bigint[],bytea[],timestamp with time zone[],integer[],text[],text[],text[],text[],bytea[],integer[],text[],text[],bytea[],bytea[],text[],integer);

CREATE OR REPLACE FUNCTION hookwire.take_records(in_source text, in_partition integer, from_offset bigint, to_offset bigint, offsets bigint[], digests bytea[], times timestamp with time zone[], units integer[], topics text[], keys text[], content_types text[], headers text[], payloads bytea[], refused integer[], reasons text[], details text[], refused_keys bytea[], refused_values bytea[], refused_headers text[], lock_milliseconds integer, assumed text[] DEFAULT '{}'::text[], lanes text[] DEFAULT NULL::text[], holding boolean[] DEFAULT NULL::boolean[], OUT taken integer, OUT next_offset bigint, OUT event_ids bigint[], OUT accepted_at timestamp with time zone, OUT ordered boolean[], OUT held text[])
 RETURNS record
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
    turn_class CONSTANT integer := 1215262579;
    turn_milliseconds CONSTANT integer := 2000;
    keys_max CONSTANT integer := 32;
    rows_max CONSTANT integer := 10000;
    bytes_max CONSTANT bigint := 268435456;
    total CONSTANT integer := cardinality(offsets);
    kept_rows bigint;
    kept_bytes bigint;
BEGIN
    taken := 0;
    SELECT o.next_offset INTO next_offset FROM hookwire.source_offsets o
    WHERE o.source = in_source AND o.partition = in_partition FOR UPDATE;
    IF next_offset IS DISTINCT FROM from_offset THEN
        RETURN;
    END IF;

    IF assumed <> '{}' OR EXISTS (
        SELECT FROM hookwire.source_refusals x
        WHERE x.source = in_source AND x.partition = in_partition AND x.held_keys IS NOT NULL
    ) THEN
        SELECT coalesce(array_agg(DISTINCT k.key), '{}') INTO held
        FROM hookwire.source_refusals x CROSS JOIN unnest(x.held_keys) AS k(key)
        WHERE x.source = in_source AND x.partition = in_partition AND x.held_keys IS NOT NULL
          AND k.key IN (SELECT d.key FROM unnest(keys) AS d(key) WHERE d.key IS NOT NULL
                        UNION SELECT jsonb_array_elements_text(l.lane::jsonb) FROM unnest(lanes) AS l(lane));
        IF NOT (held @> assumed AND assumed @> held) THEN
            RETURN;
        END IF;
        held := NULL;
    END IF;

    IF lock_milliseconds > 0 THEN
        PERFORM set_config('lock_timeout', lock_milliseconds || 'ms', true);
    ELSIF (SELECT count(DISTINCT k.key) FROM unnest(keys) AS k(key)) > keys_max THEN
        BEGIN
            PERFORM set_config('lock_timeout', turn_milliseconds || 'ms', true);
            PERFORM pg_advisory_xact_lock(turn_class, 0);
        EXCEPTION WHEN lock_not_available THEN
            NULL;   -- whoever has the turn is slow: go on, with a shorter prefix
        END;
    END IF;

    SELECT coalesce(min(units[p.item]) FILTER (WHERE p.outcome <> 'stored') - 1, total),
           array_agg(p.event_id ORDER BY p.item) FILTER (WHERE p.outcome = 'stored'), max(p.accepted_at),
           array_agg(p.ordered ORDER BY p.item) FILTER (WHERE p.outcome = 'stored')
    INTO taken, event_ids, accepted_at, ordered
    FROM hookwire.publish_batch('default', units, topics, keys, content_types, headers, payloads, '{}', '{}',
                                lock_milliseconds > 0, prefix => true, left_out => 'kafka') AS p;

    IF EXISTS (SELECT FROM unnest(refused) AS r(record) WHERE r.record <= taken) THEN
        SELECT count(*), sum(k.bytes) INTO kept_rows, kept_bytes
        FROM (SELECT x.bytes FROM hookwire.source_refusals x WHERE x.source = in_source ORDER BY x.id LIMIT rows_max) AS k;
        IF kept_rows >= rows_max OR kept_bytes >= bytes_max THEN
            RAISE EXCEPTION USING ERRCODE = 'configuration_limit_exceeded', MESSAGE = format(
                'hookwire.take_records: %s refused records of the source %s (%s bytes) are kept: retry or skip them',
                kept_rows, in_source, kept_bytes);
        END IF;
        INSERT INTO hookwire.source_refusals (source, partition, record_offset, reason, detail, key, value, headers, record_at, bytes, held_keys)
        SELECT in_source, in_partition, offsets[r.record], r.reason, r.detail, r.key, r.value, r.headers::jsonb, times[r.record],
               coalesce(octet_length(r.key), 0) + coalesce(octet_length(r.value), 0) + octet_length(r.headers),
               CASE WHEN r.holding THEN ARRAY(SELECT jsonb_array_elements_text(r.lane::jsonb)) END
        FROM unnest(refused, reasons, details, refused_keys, refused_values, refused_headers, lanes, holding)
                 AS r(record, reason, detail, key, value, headers, lane, holding)
        WHERE r.record <= taken ORDER BY r.record;
    END IF;

    next_offset := CASE WHEN taken = total THEN to_offset WHEN taken > 0 THEN offsets[taken] + 1 ELSE from_offset END;
    UPDATE hookwire.source_offsets o
    SET next_offset = take_records.next_offset, taken = o.taken + take_records.taken, changed_at = clock_timestamp(),
        last_offset = coalesce(offsets[take_records.taken], o.last_offset),
        last_digest = coalesce(digests[take_records.taken], o.last_digest),
        last_record_at = CASE WHEN take_records.taken > 0 THEN times[take_records.taken] ELSE o.last_record_at END
    WHERE o.source = in_source AND o.partition = in_partition AND take_records.next_offset <> from_offset;
END
$function$;
COMMENT ON FUNCTION hookwire.take_records(text,integer,bigint,bigint,bigint[],bytea[],timestamp with time zone[],integer[],text[],text[],text[],text[],bytea[],integer[],text[],text[],bytea[],bytea[],text[],integer,text[],text[],boolean[]) IS
'Take records of a partition: store the longest prefix whose stripes are free, and move the offset by exactly that
prefix. Return its length, the offset, and the events in the order of the drafts.

The offset''s row is locked first. If it is not from_offset, nothing is taken, and the offset is returned: another
process has taken these records, or this one has and did not learn it. to_offset is where the partition goes on when all
records are taken; offsets between are control records or were removed.

A record is a unit of drafts; units has the number of the record of each draft, counted from 1 and rising. A record in
refused goes to source_refusals, with its bytes. A record in neither of the two is passed over.

Two batches of more than some keys share stripes almost always, so such batches take turns; otherwise each would cut the
other one short. A turn lasts as long as one call, and is waited for only shortly.

A key is held in a partition while source_refusals has a row with it in held_keys. lanes has the keys of each refused
record, as a JSON array, and holding tells whether it holds them. assumed are the keys among those of the call that the
caller takes for held. If they are not those that are held, nothing is taken, and held has them; otherwise held is NULL.

With lock_milliseconds above 0, the first record''s stripes are waited for so long, while no other stripe is held.';
REVOKE EXECUTE ON FUNCTION hookwire.take_records(text,integer,bigint,bigint,bigint[],bytea[],timestamp with time zone[],integer[],text[],text[],text[],text[],bytea[],integer[],text[],text[],bytea[],bytea[],text[],integer,text[],text[],boolean[]) FROM PUBLIC;
