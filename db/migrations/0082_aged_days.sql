-- A lake may be older than the ledger. The ledger says in one place how long it keeps an hour, and from when on an audit can
-- rely on it. A proved day has the hashes of its files, so that it can be compared when its hours are gone.

CREATE FUNCTION hookwire.ledger_kept()
 RETURNS interval
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN '400 days'::interval;
COMMENT ON FUNCTION hookwire.ledger_kept() IS 'Return how long the ledger keeps the cells of an hour.';
REVOKE EXECUTE ON FUNCTION hookwire.ledger_kept() FROM PUBLIC;

CREATE FUNCTION hookwire.ledger_from(since_at timestamptz)
 RETURNS timestamptz
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN greatest(
    date_trunc('hour', since_at, 'UTC') + interval '1 hour',
    date_trunc('day', now() - hookwire.ledger_kept() + interval '1 day', 'UTC') + interval '1 day');
COMMENT ON FUNCTION hookwire.ledger_from(timestamptz) IS
'Return the first hour that can be judged: the first whole one of a ledger that began at `since_at`, or the first of the
oldest day that is kept whole for another day at least. So what is judged now is not purged meanwhile.';
REVOKE EXECUTE ON FUNCTION hookwire.ledger_from(timestamptz) FROM PUBLIC;

ALTER TABLE hookwire.lake_proofs ADD COLUMN files text[];
COMMENT ON COLUMN hookwire.lake_proofs.files IS
'The day''s files: table, path, and a hash of the bytes and of the log''s words, for when the ledger has dropped its hours.
NULL: of an older version.';
