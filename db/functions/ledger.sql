-- SQL functions as all migrations together make them. Written by `make schema`, never by hand.

CREATE OR REPLACE FUNCTION hookwire.content_hash(id bigint, accepted_at timestamp with time zone, ordered boolean, key text, content_type text, headers jsonb, payload bytea)
 RETURNS bigint
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN ((('x'::text || "left"(encode(sha256((convert_to(concat_ws(chr(31), id, ((EXTRACT(epoch FROM accepted_at) * (1000000)::numeric))::bigint, CASE WHEN ordered THEN (id)::text ELSE '-'::text END, COALESCE(('='::text || key), '-'::text), COALESCE(('='::text || content_type), '-'::text), CASE WHEN (headers = '{}'::jsonb) THEN ''::text ELSE (SELECT COALESCE(string_agg(((n.name || '='::text) || h.value), chr(30) ORDER BY h.place), ''::text) AS "coalesce" FROM (jsonb_each_text(content_hash.headers) WITH ORDINALITY h(name, value, place) CROSS JOIN LATERAL (SELECT regexp_replace(h.name, '^ce-'::text, 'ce_'::text) AS regexp_replace) n(name)) WHERE ((n.name = 'hookwire-hops'::text) OR (NOT starts_with(n.name, 'hookwire-'::text)))) END, '='), 'UTF8'::name) || payload)), 'hex'::text), 16)))::bit(64))::bigint;
COMMENT ON FUNCTION hookwire.content_hash(bigint,timestamp with time zone,boolean,text,text,jsonb,bytea) IS
'Return the hash of an event as Kafka carries it. It is the first 8 bytes of a SHA-256: of the event''s members, a
separator between each two, then of its payload. The pipeline computes the same from a record
(pipeline/audit/content.py). An audit of the lake proves by it that the records hold the contents, and not only that
they are there.';
REVOKE EXECUTE ON FUNCTION hookwire.content_hash(bigint,timestamp with time zone,boolean,text,text,jsonb,bytea) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.ledger_from(since_at timestamp with time zone)
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN GREATEST((date_trunc('hour'::text, since_at, 'UTC'::text) + '01:00:00'::interval), (date_trunc('day'::text, ((now() - hookwire.ledger_kept()) + '1 day'::interval), 'UTC'::text) + '1 day'::interval));
COMMENT ON FUNCTION hookwire.ledger_from(timestamp with time zone) IS
'Return the first hour that can be judged: the first whole one of a ledger that began at `since_at`, or the first of the
oldest day that is kept whole for another day at least. So what is judged now is not purged meanwhile.';
REVOKE EXECUTE ON FUNCTION hookwire.ledger_from(timestamp with time zone) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.ledger_hash(id bigint)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE STRICT
RETURN ((('x'::text || "left"(encode(sha256(int8send(id)), 'hex'::text), 16)))::bit(64))::bigint;
COMMENT ON FUNCTION hookwire.ledger_hash(bigint) IS
'Return the hash whose sums, modulo 2^64, are the checksums of the ledger.';
REVOKE EXECUTE ON FUNCTION hookwire.ledger_hash(bigint) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.ledger_kept()
 RETURNS interval
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN '400 days'::interval;
COMMENT ON FUNCTION hookwire.ledger_kept() IS
'Return how long the ledger keeps the cells of an hour.';
REVOKE EXECUTE ON FUNCTION hookwire.ledger_kept() FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.ledger_sum(total numeric)
 RETURNS numeric
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN mod((mod(COALESCE(total, (0)::numeric), '18446744073709551616'::numeric) + '18446744073709551616'::numeric), '18446744073709551616'::numeric);
COMMENT ON FUNCTION hookwire.ledger_sum(numeric) IS
'Return a sum of hashes modulo 2^64, as a signed number.';
REVOKE EXECUTE ON FUNCTION hookwire.ledger_sum(numeric) FROM PUBLIC;
