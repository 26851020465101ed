-- Readiness asks the server to write (FC-06): a read-only server and a full disk answer every question. The row is changed in
-- place; the spilled sort takes new blocks of the disk, which a change in place need not.
CREATE TABLE hookwire.readiness (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    written_at timestamptz NOT NULL
);

-- Write one row and half a mebibyte of temporary file. Raise what the server says when it cannot.
CREATE FUNCTION hookwire.check_writable() RETURNS timestamptz
LANGUAGE plpgsql SET work_mem = '64kB' AS $$
DECLARE
    moment timestamptz;
BEGIN
    PERFORM count(*) FROM (SELECT n FROM generate_series(1, 20000) AS n ORDER BY hashint4(n)) AS spilled;
    INSERT INTO hookwire.readiness AS r (written_at) VALUES (now())
    ON CONFLICT (singleton) DO UPDATE SET written_at = excluded.written_at
    RETURNING r.written_at INTO moment;
    RETURN moment;
END $$;
