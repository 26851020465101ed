-- Contents in the ledger (FP-05): a hash of each event as Kafka carries it, summed for each cell. An audit of a lake proves
-- by it what is in the records, and not only that they are there.

-- The hash of an event: the first 8 bytes of the SHA-256 of its members, a separator between each two, then its payload. The
-- pipeline computes the same from a record (pipeline/audit/content.py); headers are those that the relay sends.
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

-- content_count: of how many events owed_content is the sum. Fewer than owed_count: a version before this one folded some,
-- so that the contents of the cell are not known.
ALTER TABLE hookwire.ledger
    ADD COLUMN owed_content numeric(20) NOT NULL DEFAULT 0,
    ADD COLUMN content_count bigint NOT NULL DEFAULT 0;
