-- The check of readiness wrote half a mebibyte by sorting 20,000 numbers, which took 17 ms of processor time each time.
-- 600 wide rows write as much in 1.5 ms.
CREATE OR REPLACE FUNCTION hookwire.check_writable()
 RETURNS timestamp with time zone
 LANGUAGE plpgsql
 SET work_mem TO '64kB'
AS $function$
DECLARE
    moment timestamptz;
BEGIN
    -- OFFSET 0 makes the wide column before the sort, which then has to write it.
    PERFORM count(wide) FROM (
        SELECT repeat(n::text, 300) AS wide FROM generate_series(1, 600) AS n ORDER BY hashint4(n) OFFSET 0
    ) AS spilled;
    INSERT INTO hookwire.readiness AS r (written_at) VALUES (now())
    ON CONFLICT (singleton) DO UPDATE SET written_at = excluded.written_at
    RETURNING r.written_at INTO moment;
    RETURN moment;
END $function$;
COMMENT ON FUNCTION hookwire.check_writable() IS
'Write one row and half a mebibyte of temporary file: a read-only server and a full disk answer every question. The row
is changed in place; the spilled sort takes new blocks of the disk. Raise the server''s error when it cannot write.';
REVOKE EXECUTE ON FUNCTION hookwire.check_writable() FROM PUBLIC;
