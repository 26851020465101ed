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

-- What active subscriptions wanted before they were changed, narrowed or ended, for events up to until_id: the fan-out judges
-- an event by the state at its acceptance (FC-08). Rows go once every event up to there is fanned out. A WebSub subscription
-- that has ended is owed nothing (DL-2, DL-10).
CREATE TABLE hookwire.former_audiences (
    subscription_id bigint NOT NULL,
    until_id bigint NOT NULL,
    tenant text NOT NULL,
    topic text NOT NULL,
    topic_regex text,
    filter_path jsonpath,
    lease_until timestamptz,
    number bigint GENERATED ALWAYS AS IDENTITY,
    PRIMARY KEY (subscription_id, until_id, number)
);
CREATE INDEX former_audiences_by_topic ON hookwire.former_audiences (tenant, until_id);

-- No event up to the last id drawn was accepted after this change; one that is committed later is judged by what was, too.
CREATE FUNCTION hookwire.note_former_audience() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO hookwire.former_audiences (subscription_id, until_id, tenant, topic, topic_regex, filter_path, lease_until)
    SELECT OLD.id, e.last_value, OLD.tenant, OLD.topic, OLD.topic_regex, OLD.filter_path, OLD.lease_until
    FROM hookwire.event_id e
    WHERE e.is_called;
    RETURN NULL;
END $$;
CREATE TRIGGER note_former_audience AFTER UPDATE ON hookwire.subscriptions FOR EACH ROW
    WHEN (OLD.state = 'active' AND (NEW.protocol <> 'websub' OR NEW.state IN ('active', 'disabled')) AND (NEW.state <> 'active' OR NEW.topic <> OLD.topic
          OR NEW.topic_regex IS DISTINCT FROM OLD.topic_regex OR NEW.filter_path::text IS DISTINCT FROM OLD.filter_path::text))
    EXECUTE FUNCTION hookwire.note_former_audience();
