-- Delivery: subscriptions, and an event on its way to their callbacks.
--
--   outbox --fan-out--> deliveries --claim, send, settle--> attempts
--     (or the direct path, at the end)                 '--> dead_letters, when it is given up
--
-- One table holds the subscriptions of all protocols. Tables that only WebSub or RabbitHub needs are in 0004.

-- --- subscriptions ---

CREATE TABLE hookwire.subscriptions (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    public_id text NOT NULL UNIQUE,
    tenant text NOT NULL DEFAULT 'default',
    protocol text NOT NULL CHECK (protocol IN ('webhook', 'websub', 'pull', 'rabbithub', 'service', 'job')),
    topic text NOT NULL,
    topic_regex text,
    topic_url text,
    callback text NOT NULL,
    state text NOT NULL CHECK (state IN ('active', 'disabled', 'gone', 'expired', 'denied', 'deleted')),
    state_reason text,
    ordered boolean NOT NULL DEFAULT false,
    signature_method text NOT NULL DEFAULT 'sha256',
    retry_schedule_seconds integer[],
    timeout_seconds real,
    lease_until timestamptz,
    paused_until timestamptz,
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    identity bytea CHECK (length(identity) = 32),
    filter jsonb,
    filter_path jsonpath,
    lifetime_seconds integer,
    retry_age_seconds_max integer,
    on_4xx text NOT NULL DEFAULT 'retry' CHECK (on_4xx IN ('retry', 'give_up')),
    on_410 text NOT NULL DEFAULT 'end' CHECK (on_410 IN ('end', 'as_4xx')),
    at_most_once boolean NOT NULL DEFAULT false,
    on_exhausted text NOT NULL DEFAULT 'skip' CHECK (on_exhausted IN ('park', 'skip')),
    header_names text[],
    headers_key_id text,
    headers_sealed bytea,
    pshb03 boolean NOT NULL DEFAULT false,
    permanent boolean NOT NULL DEFAULT false,
    verify_token text,
    rate_per_second double precision CHECK (rate_per_second > 0),
    rate_burst integer CHECK (rate_burst > 0),
    format text NOT NULL DEFAULT 'as_published'
        CHECK (format IN ('as_published', 'raw', 'binary', 'structured', 'batch', 'websub_ping', 'slack', 'mattermost')),
    request_origin text,
    batch_max integer CHECK (batch_max BETWEEN 1 AND 1000),
    template text,
    callback_host text,
    requester_network text,
    service text COLLATE "C",
    name text,
    description text,
    metadata jsonb,
    drops_at_end boolean NOT NULL DEFAULT false,
    kind text COLLATE "C",
    queue text COLLATE "C",
    CONSTRAINT subscriptions_mode_check CHECK (NOT (at_most_once AND ordered)),
    CONSTRAINT subscriptions_headers_check
        CHECK ((headers_sealed IS NULL) = (headers_key_id IS NULL) AND (headers_sealed IS NULL) = (header_names IS NULL))
);
COMMENT ON TABLE hookwire.subscriptions IS 'Subscriptions of all protocols, with what they want and how they are delivered to.';
COMMENT ON COLUMN hookwire.subscriptions.protocol IS 'webhook (API), websub, pull, rabbithub or service.';
COMMENT ON COLUMN hookwire.subscriptions.topic IS 'The topic or pattern as it was asked for.';
COMMENT ON COLUMN hookwire.subscriptions.topic_regex IS 'The pattern as a regular expression; NULL: one topic.';
COMMENT ON COLUMN hookwire.subscriptions.topic_url IS 'The URL by which a WebSub subscriber named the topic.';
COMMENT ON COLUMN hookwire.subscriptions.callback IS 'The URL that gets the events; empty for pull.';
COMMENT ON COLUMN hookwire.subscriptions.state IS
    'As it was set: active, disabled, gone, expired, denied or deleted. Health is computed, not stored.';
COMMENT ON COLUMN hookwire.subscriptions.state_reason IS 'Why it is not active any more.';
COMMENT ON COLUMN hookwire.subscriptions.ordered IS 'Whether the events of a key are delivered one after the other.';
COMMENT ON COLUMN hookwire.subscriptions.signature_method IS 'The hash of WebSub''s signature.';
COMMENT ON COLUMN hookwire.subscriptions.retry_schedule_seconds IS 'Pauses between attempts; NULL: the hub''s setting.';
COMMENT ON COLUMN hookwire.subscriptions.timeout_seconds IS 'The deadline of one attempt; NULL: the hub''s setting.';
COMMENT ON COLUMN hookwire.subscriptions.lease_until IS
    'The end of a WebSub lease, or of a pull subscription that is not fetched from; NULL: none.';
COMMENT ON COLUMN hookwire.subscriptions.paused_until IS 'Until when a 429 pauses deliveries.';
COMMENT ON COLUMN hookwire.subscriptions.version IS
    'Rises with each change; a worker reads the subscription again when a claim names another version.';
COMMENT ON COLUMN hookwire.subscriptions.identity IS 'SHA-256 of topic and callback: the pair, however its URLs are spelled.';
COMMENT ON COLUMN hookwire.subscriptions.filter IS 'The filter as it was asked for.';
COMMENT ON COLUMN hookwire.subscriptions.filter_path IS 'The filter as the predicate that hookwire.passes evaluates.';
COMMENT ON COLUMN hookwire.subscriptions.lifetime_seconds IS 'Pull: how long it lasts without a fetch.';
COMMENT ON COLUMN hookwire.subscriptions.retry_age_seconds_max IS
    'How old a delivery may grow before it is given up; NULL: the hub''s setting.';
COMMENT ON COLUMN hookwire.subscriptions.on_4xx IS 'Whether a 4xx is retried or final for its delivery.';
COMMENT ON COLUMN hookwire.subscriptions.on_410 IS 'Whether a 410 ends the subscription or counts as any 4xx.';
COMMENT ON COLUMN hookwire.subscriptions.at_most_once IS 'A delivery whose outcome is unknown is never sent again.';
COMMENT ON COLUMN hookwire.subscriptions.on_exhausted IS
    'What an exhausted head of a lane does: park keeps its key waiting, skip goes on.';
COMMENT ON COLUMN hookwire.subscriptions.header_names IS 'The names in headers_sealed, which may be shown.';
COMMENT ON COLUMN hookwire.subscriptions.headers_key_id IS 'The key that sealed headers_sealed.';
COMMENT ON COLUMN hookwire.subscriptions.headers_sealed IS 'Headers of the subscriber''s own, encrypted.';
COMMENT ON COLUMN hookwire.subscriptions.pshb03 IS 'Made by a request of PubSubHubbub 0.3.';
COMMENT ON COLUMN hookwire.subscriptions.permanent IS 'Renewed by the hub before its lease ends (PubSubHubbub 0.3).';
COMMENT ON COLUMN hookwire.subscriptions.verify_token IS 'PubSubHubbub 0.3: the token that is echoed to the callback.';
COMMENT ON COLUMN hookwire.subscriptions.rate_per_second IS 'The rate limit; NULL: none.';
COMMENT ON COLUMN hookwire.subscriptions.rate_burst IS 'How many deliveries may be made at once under the rate limit.';
COMMENT ON COLUMN hookwire.subscriptions.format IS 'How a delivery carries the event.';
COMMENT ON COLUMN hookwire.subscriptions.request_origin IS
    'The origin that the callback consented to be sent to by (CloudEvents).';
COMMENT ON COLUMN hookwire.subscriptions.batch_max IS 'How many events one request may carry; NULL: one.';
COMMENT ON COLUMN hookwire.subscriptions.template IS 'How a chat shows an event.';
COMMENT ON COLUMN hookwire.subscriptions.callback_host IS 'The host of the callback, for limits that count by host.';
COMMENT ON COLUMN hookwire.subscriptions.requester_network IS 'The network that asked for it: an IPv4 address or an IPv6 /64.';
COMMENT ON COLUMN hookwire.subscriptions.service IS
    'The service whose requests the callback gets; NULL for subscriptions to topics.';
COMMENT ON COLUMN hookwire.subscriptions.metadata IS 'The subscriber''s own JSON, which is only shown again.';
COMMENT ON COLUMN hookwire.subscriptions.drops_at_end IS
    'Whether what it is owed at its end is dropped instead of becoming dead letters.';

CREATE INDEX subscriptions_exact ON hookwire.subscriptions (tenant, topic) WHERE state = 'active' AND topic_regex IS NULL;
CREATE UNIQUE INDEX subscriptions_websub ON hookwire.subscriptions (tenant, identity)
    WHERE protocol = 'websub' AND state IN ('active', 'disabled');
-- WebSub: leases that end, and subscriptions that ended recently, whose open deliveries are dropped (DL-10).
CREATE INDEX subscriptions_lease ON hookwire.subscriptions (lease_until)
    WHERE protocol = 'websub' AND state IN ('active', 'disabled');
CREATE INDEX subscriptions_ended ON hookwire.subscriptions (updated_at)
    WHERE protocol = 'websub' AND state IN ('expired', 'denied', 'deleted');
CREATE INDEX subscriptions_permanent ON hookwire.subscriptions (lease_until)
    WHERE permanent AND protocol = 'websub' AND state IN ('active', 'disabled');
CREATE UNIQUE INDEX subscriptions_rabbithub ON hookwire.subscriptions (tenant, identity)
    WHERE protocol = 'rabbithub' AND state <> 'deleted';
CREATE INDEX subscriptions_rabbithub_lease ON hookwire.subscriptions (lease_until)
    WHERE protocol = 'rabbithub' AND state = 'active';
CREATE UNIQUE INDEX subscriptions_binding ON hookwire.subscriptions (tenant, identity)
    WHERE protocol = 'pull' AND state <> 'deleted' AND identity IS NOT NULL;
CREATE INDEX subscriptions_pull_lease ON hookwire.subscriptions (lease_until) WHERE protocol = 'pull' AND state = 'active';
CREATE INDEX subscriptions_pair ON hookwire.subscriptions (tenant, identity, id) WHERE protocol = 'websub';
-- The patterns of a tenant, each once (FC-02): the fan-out compares a pattern with a topic once.
CREATE INDEX subscriptions_patterns ON hookwire.subscriptions (tenant, topic_regex)
    WHERE state = 'active' AND topic_regex IS NOT NULL;
CREATE INDEX subscriptions_of_host ON hookwire.subscriptions (callback_host)
    WHERE protocol = 'websub' AND state IN ('active', 'disabled');
CREATE INDEX subscriptions_of_requester ON hookwire.subscriptions (requester_network)
    WHERE protocol = 'websub' AND state IN ('active', 'disabled');
CREATE INDEX subscriptions_service ON hookwire.subscriptions (service) WHERE protocol = 'service' AND state = 'active';
CREATE INDEX subscriptions_paused ON hookwire.subscriptions (paused_until) WHERE paused_until IS NOT NULL;
CREATE INDEX subscriptions_disabled ON hookwire.subscriptions (id) WHERE state = 'disabled';
CREATE INDEX subscriptions_job ON hookwire.subscriptions (kind) WHERE protocol = 'job' AND state = 'active';

CREATE TABLE hookwire.subscription_secrets (
    subscription_id bigint NOT NULL REFERENCES hookwire.subscriptions ON DELETE CASCADE,
    number integer NOT NULL,
    tenant text NOT NULL DEFAULT 'default',
    key_id text NOT NULL,
    sealed bytea NOT NULL,
    expires_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (subscription_id, number)
);
COMMENT ON TABLE hookwire.subscription_secrets IS
    'Signing secrets of subscriptions, encrypted. The newest signs first; an expired one signs no more.';
COMMENT ON COLUMN hookwire.subscription_secrets.number IS 'Rises with each rotation.';
COMMENT ON COLUMN hookwire.subscription_secrets.key_id IS 'The key that sealed the secret.';
COMMENT ON COLUMN hookwire.subscription_secrets.sealed IS 'The secret, encrypted.';

-- --- filters on content (WH-A05) ---

-- Return a payload as JSON, NULL where it is none; never an error (RR-10).
CREATE FUNCTION hookwire.json_of(payload bytea) RETURNS jsonb
LANGUAGE plpgsql STABLE STRICT AS $$
BEGIN
    RETURN convert_from(payload, 'UTF8')::jsonb;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END
$$;

-- Return the document that filters look at.
CREATE FUNCTION hookwire.filter_document(
    topic text, key text, accepted_at timestamptz, content_type text, headers jsonb, payload bytea
) RETURNS jsonb
LANGUAGE sql STABLE
RETURN jsonb_build_object(
    'topic', topic, 'key', key, 'time', to_char(accepted_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    'content_type', content_type, 'headers', headers, 'data', hookwire.json_of(payload));

-- Return whether an event passes a filter; never an error, never unknown.
CREATE FUNCTION hookwire.passes(document jsonb, filter_path jsonpath) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN coalesce(jsonb_path_match(document, filter_path, '{}', true), false);

-- --- the audience of an event ---

-- The fan-out judges an event by the subscriptions at its acceptance (FC-08). Rows go once every event up to until_id is
-- fanned out. A WebSub subscription that has ended is owed nothing (DL-2, DL-10).
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
COMMENT ON TABLE hookwire.former_audiences IS
    'What subscriptions wanted before a change, for events up to until_id. The fan-out judges an event by its acceptance (FC-08).';
COMMENT ON COLUMN hookwire.former_audiences.until_id IS 'The last event that is judged by this row.';
COMMENT ON COLUMN hookwire.former_audiences.topic_regex IS 'As in subscriptions, before the change.';
COMMENT ON COLUMN hookwire.former_audiences.filter_path IS 'As in subscriptions, before the change.';
COMMENT ON COLUMN hookwire.former_audiences.lease_until IS 'As in subscriptions, before the change.';
COMMENT ON COLUMN hookwire.former_audiences.number IS 'Tells rows of one subscription apart.';

CREATE INDEX former_audiences_exact ON hookwire.former_audiences (tenant, topic, until_id) WHERE topic_regex IS NULL;
CREATE INDEX former_audiences_patterns ON hookwire.former_audiences (tenant, topic_regex, until_id)
    WHERE topic_regex IS NOT NULL;

-- No event up to the last id drawn was accepted after this change. An event that is committed later is judged by it, too.
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

CREATE TABLE hookwire.fanout_cursors (
    event_id bigint PRIMARY KEY,
    tenant text NOT NULL,
    last_subscription_id bigint NOT NULL,
    upper_subscription_id bigint NOT NULL
);
COMMENT ON TABLE hookwire.fanout_cursors IS 'Events that are fanned out in slices, because they have many subscriptions.';
COMMENT ON COLUMN hookwire.fanout_cursors.last_subscription_id IS 'Up to here deliveries are made.';
COMMENT ON COLUMN hookwire.fanout_cursors.upper_subscription_id IS
    'The last subscription of the fan-out, fixed by its first slice.';

-- --- deliveries ---

-- Open deliveries only. due_at is "not before" and, while claimed, the end of the lease: a worker that dies leaves a row that
-- is due again by itself. Deliveries behind another one of their lane have due_at = 'infinity', so no claim and no poll walks
-- over them. The settlement of a head makes the next one due.
--
-- For WebSub new content wakes a head that is backing off (woken_at). That attempt is counted in attempts and in
-- free_attempts, and planned_at keeps the moment at which the schedule goes on.
CREATE TABLE hookwire.deliveries (
    event_id bigint NOT NULL,
    subscription_id bigint NOT NULL,
    due_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    fence bigint,
    attempts integer NOT NULL DEFAULT 0,
    last_status smallint,
    tenant text NOT NULL,
    lane text,
    last_outcome text,
    free_attempts integer NOT NULL DEFAULT 0,
    woken_at timestamptz,
    planned_at timestamptz,
    replay_id bigint,
    last_seconds real,
    parked_at timestamptz,
    PRIMARY KEY (event_id, subscription_id)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
        autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 100000);
COMMENT ON TABLE hookwire.deliveries IS
    'Open deliveries: a row for each event and subscription until it is delivered or dead. open_deliveries shows its state.';
COMMENT ON COLUMN hookwire.deliveries.due_at IS
    'When a claim may take the row. Waiting: not before. Claimed (fence set): the end of the lease. Blocked or parked: infinity.';
COMMENT ON COLUMN hookwire.deliveries.created_at IS 'When the fan-out made it; a parked delivery that is retried begins anew.';
COMMENT ON COLUMN hookwire.deliveries.fence IS
    'The token of the current claim; NULL: not claimed. A settlement under another token changes nothing.';
COMMENT ON COLUMN hookwire.deliveries.attempts IS 'Attempts that were claimed, also one that killed its worker.';
COMMENT ON COLUMN hookwire.deliveries.last_status IS 'The status of the last answer.';
COMMENT ON COLUMN hookwire.deliveries.lane IS
    'The key of an ordered subscription; only the lowest event of a lane is ever claimed. NULL: no order.';
COMMENT ON COLUMN hookwire.deliveries.last_outcome IS 'The class of the last attempt''s outcome.';
COMMENT ON COLUMN hookwire.deliveries.free_attempts IS
    'Attempts outside the retry schedule: attempts - free_attempts is the place in it.';
COMMENT ON COLUMN hookwire.deliveries.woken_at IS 'WebSub: when new content woke it last.';
COMMENT ON COLUMN hookwire.deliveries.planned_at IS
    'When the retry schedule goes on after an attempt out of turn; NULL: in its ordinary course.';
COMMENT ON COLUMN hookwire.deliveries.replay_id IS 'The replay that made it; 0: a single event was sent again; NULL: none.';
COMMENT ON COLUMN hookwire.deliveries.last_seconds IS 'How long the last attempt took.';
COMMENT ON COLUMN hookwire.deliveries.parked_at IS 'Since when the head of a lane waits for a decision; due_at is infinity then.';

CREATE INDEX deliveries_due ON hookwire.deliveries (subscription_id, due_at, event_id);
CREATE INDEX deliveries_lane ON hookwire.deliveries (subscription_id, lane, event_id) WHERE lane IS NOT NULL;
-- Few among all that are owed, and listed by themselves (WH-O03).
CREATE INDEX deliveries_parked ON hookwire.deliveries (event_id, subscription_id) WHERE parked_at IS NOT NULL;
-- For GET /deliveries?state=sending and retrying: a row is in one of the two at most. Both ask for attempts > 0, so that no
-- statement of the workers, which ask for a fence, is planned over them.
CREATE INDEX deliveries_sending ON hookwire.deliveries (event_id, subscription_id)
    WHERE attempts > 0 AND fence IS NOT NULL AND parked_at IS NULL;
CREATE INDEX deliveries_retrying ON hookwire.deliveries (event_id, subscription_id)
    WHERE attempts > 0 AND fence IS NULL AND parked_at IS NULL;

-- The delivery that waits behind another one of its lane. STABLE and one SELECT, so that PostgreSQL inlines it into the
-- statements that call it: they are planned as if it stood there.
CREATE FUNCTION hookwire.next_in_lane(subscription bigint, lane text, event bigint) RETURNS TABLE (place tid)
LANGUAGE sql STABLE AS $$
    SELECT x.ctid FROM hookwire.deliveries x
    WHERE x.subscription_id = $1 AND x.lane = $2 AND x.event_id > $3
    ORDER BY x.event_id LIMIT 1
$$;

-- The three meanings of deliveries.due_at by name (docs/adr/0048-one-column-says-when.md). A claim sets fence, and every end of
-- a claim clears it. PostgreSQL inlines the view, so a statement that reads it is planned as if it read the table.
CREATE VIEW hookwire.open_deliveries AS
SELECT d.event_id, d.subscription_id, d.tenant, d.lane, d.created_at, d.attempts, d.free_attempts, d.replay_id, d.fence,
       d.last_outcome, d.last_status, d.last_seconds, d.parked_at,
       CASE WHEN d.parked_at IS NOT NULL THEN 'parked' WHEN d.fence IS NOT NULL THEN 'claimed'
            WHEN d.due_at = 'infinity' THEN 'blocked' ELSE 'waiting' END AS state,
       CASE WHEN d.fence IS NULL AND d.due_at <> 'infinity' THEN d.due_at END AS available_at,
       CASE WHEN d.fence IS NOT NULL THEN d.due_at END AS lease_until
FROM hookwire.deliveries d;
COMMENT ON VIEW hookwire.open_deliveries IS
    'Open deliveries with an explicit state: waiting (from available_at on), claimed (until lease_until), blocked or parked.';
COMMENT ON COLUMN hookwire.open_deliveries.state IS
    'waiting, claimed, blocked (behind an earlier event of its lane) or parked (waits for a decision).';
COMMENT ON COLUMN hookwire.open_deliveries.available_at IS 'Waiting: no attempt before; NULL in other states.';
COMMENT ON COLUMN hookwire.open_deliveries.lease_until IS 'Claimed: when another worker may claim it; NULL in other states.';

CREATE SEQUENCE hookwire.delivery_fence AS bigint CACHE 1;

CREATE TABLE hookwire.attempts (
    event_id bigint NOT NULL,
    subscription_id bigint NOT NULL,
    started_at timestamptz NOT NULL,
    number integer NOT NULL,
    status smallint,
    connect_seconds real,
    first_byte_seconds real,
    total_seconds real NOT NULL,
    tenant text NOT NULL,
    outcome text NOT NULL,
    decision text NOT NULL CHECK (decision IN ('delivered', 'retry', 'park', 'dead', 'dropped')),
    trigger text NOT NULL,
    worker text NOT NULL,
    address text,
    detail text,
    response_headers jsonb,
    response_body bytea,
    PRIMARY KEY (event_id, subscription_id, number)
) PARTITION BY RANGE (event_id);
COMMENT ON TABLE hookwire.attempts IS 'Finished attempts of deliveries, partitioned by event id.';
COMMENT ON COLUMN hookwire.attempts.number IS 'The attempt''s number within its delivery, from 1.';
COMMENT ON COLUMN hookwire.attempts.connect_seconds IS 'Until the connection stood; NULL: a kept connection was used.';
COMMENT ON COLUMN hookwire.attempts.outcome IS 'What the answer, or its absence, means.';
COMMENT ON COLUMN hookwire.attempts.decision IS 'What followed: delivered, retry, park or dead.';
COMMENT ON COLUMN hookwire.attempts.trigger IS 'Why it was made: first, retry, replay or manual.';
COMMENT ON COLUMN hookwire.attempts.address IS 'The IP address that was dialled.';
COMMENT ON COLUMN hookwire.attempts.detail IS 'One line for the subscriber.';
COMMENT ON COLUMN hookwire.attempts.response_headers IS 'Some headers of an answer that was no success.';
COMMENT ON COLUMN hookwire.attempts.response_body IS 'The first bytes of an answer that was no success.';

CREATE INDEX attempts_subscription ON hookwire.attempts (subscription_id, event_id);

CREATE TABLE hookwire.dead_letters (
    event_id bigint NOT NULL,
    subscription_id bigint NOT NULL,
    tenant text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('exhausted', 'declined', 'aborted', 'gone', 'internal')),
    attempts integer NOT NULL,
    last_status smallint,
    last_outcome text,
    detail text,
    died_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (event_id, subscription_id)
);
COMMENT ON TABLE hookwire.dead_letters IS 'Deliveries that were given up; they can be replayed or purged.';
COMMENT ON COLUMN hookwire.dead_letters.kind IS 'Why: exhausted, declined, gone, aborted or internal.';
COMMENT ON COLUMN hookwire.dead_letters.last_status IS 'The status of the last answer.';
COMMENT ON COLUMN hookwire.dead_letters.last_outcome IS 'The class of the last attempt''s outcome.';

CREATE INDEX dead_letters_subscription ON hookwire.dead_letters (subscription_id, event_id);

CREATE TABLE hookwire.replays (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text NOT NULL,
    state text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'paused', 'done', 'cancelled')),
    source text NOT NULL CHECK (source IN ('events', 'dead_letters')),
    subscription_id bigint CHECK (subscription_id IS NOT NULL OR source = 'dead_letters'),
    topic text,
    kinds text[],
    statuses smallint[],
    event_ids bigint[],
    since_at timestamptz,
    until_at timestamptz,
    rate_per_second integer CHECK (rate_per_second > 0),
    actor text NOT NULL,
    reason text,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    lower_event_id bigint NOT NULL,
    last_event_id bigint NOT NULL,
    last_subscription_id bigint NOT NULL DEFAULT 0,
    upper_event_id bigint NOT NULL,
    examined bigint NOT NULL DEFAULT 0,
    replayed bigint NOT NULL DEFAULT 0,
    due_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE hookwire.replays IS 'Replays: events or dead letters that are sent again, in steps.';
COMMENT ON COLUMN hookwire.replays.source IS 'events or dead_letters.';
COMMENT ON COLUMN hookwire.replays.kinds IS 'Which kinds of dead letters; NULL: all.';
COMMENT ON COLUMN hookwire.replays.statuses IS 'Dead letters with which last status; NULL: all.';
COMMENT ON COLUMN hookwire.replays.event_ids IS 'Which events; NULL: all in the range.';
COMMENT ON COLUMN hookwire.replays.since_at IS 'Only events accepted from then on.';
COMMENT ON COLUMN hookwire.replays.until_at IS 'Only events accepted before.';
COMMENT ON COLUMN hookwire.replays.lower_event_id IS 'The first event of the range.';
COMMENT ON COLUMN hookwire.replays.last_event_id IS 'Up to here the range is done.';
COMMENT ON COLUMN hookwire.replays.last_subscription_id IS 'Up to here the current event is done.';
COMMENT ON COLUMN hookwire.replays.upper_event_id IS 'The last event of the range, fixed at the start.';
COMMENT ON COLUMN hookwire.replays.examined IS 'Events or dead letters that were looked at.';
COMMENT ON COLUMN hookwire.replays.replayed IS 'Deliveries that were made.';
COMMENT ON COLUMN hookwire.replays.due_at IS 'When the next step is made.';

CREATE INDEX replays_running ON hookwire.replays (due_at) WHERE state = 'running';

-- --- throttles and failures ---

CREATE TABLE hookwire.delivery_gates (
    subscription_id bigint PRIMARY KEY,
    tenant text NOT NULL DEFAULT 'default',
    tokens double precision NOT NULL DEFAULT 0,
    refilled_at timestamptz NOT NULL DEFAULT now(),
    trips integer NOT NULL DEFAULT 0,
    open_until timestamptz,
    failing_since timestamptz
) WITH (fillfactor = 50);
COMMENT ON TABLE hookwire.delivery_gates IS
    'Throttles: rate limit and circuit breaker of subscriptions that have one. Each claim locks the rows that it passes.';
COMMENT ON COLUMN hookwire.delivery_gates.tokens IS 'Deliveries that the rate limit allows, as of refilled_at.';
COMMENT ON COLUMN hookwire.delivery_gates.trips IS
    'How often the breaker has opened since a success; above 0 one delivery at a time passes, as a probe.';
COMMENT ON COLUMN hookwire.delivery_gates.open_until IS
    'Until when the breaker lets nothing pass, or until when its probe is out.';
COMMENT ON COLUMN hookwire.delivery_gates.failing_since IS 'The first trip since a success.';

CREATE TABLE hookwire.delivery_failures (
    subscription_id bigint PRIMARY KEY,
    tenant text NOT NULL DEFAULT 'default',
    failures integer NOT NULL,
    failures_before integer NOT NULL DEFAULT 0,
    succeeded_at timestamptz,
    settled_at timestamptz[] NOT NULL,
    failed boolean[] NOT NULL,
    failing_since timestamptz,
    last_outcome text,
    last_status smallint
) WITH (fillfactor = 50);
COMMENT ON TABLE hookwire.delivery_failures IS
    'Subscriptions that have failed lately, as all workers together count it. Most subscriptions have no row.';
COMMENT ON COLUMN hookwire.delivery_failures.failures IS 'Failures in a row, up to now.';
COMMENT ON COLUMN hookwire.delivery_failures.failures_before IS
    'The same before the last settlement: tells which levels that one passed.';
COMMENT ON COLUMN hookwire.delivery_failures.succeeded_at IS 'The last success that is known.';
COMMENT ON COLUMN hookwire.delivery_failures.settled_at IS
    'When the last attempts were settled, oldest first; the breaker is judged by them.';
COMMENT ON COLUMN hookwire.delivery_failures.failed IS 'Whether each of these attempts failed.';
COMMENT ON COLUMN hookwire.delivery_failures.failing_since IS
    'The first failure since the last success; NULL: the last attempt succeeded.';
COMMENT ON COLUMN hookwire.delivery_failures.last_outcome IS 'Of the latest failure.';
COMMENT ON COLUMN hookwire.delivery_failures.last_status IS 'Of the latest failure.';

CREATE INDEX delivery_failures_failing ON hookwire.delivery_failures (failing_since) WHERE failing_since IS NOT NULL;

-- The last three columns are computed only where a statement names them. Waiting deliveries are counted up to 1,000, and the
-- last success is looked for among the latest events (FT-01).
CREATE VIEW hookwire.receivers AS
SELECT s.id, s.tenant, s.public_id, s.protocol, s.topic, s.callback, s.state AS subscription_state, s.state_reason,
       s.lease_until, s.paused_until,
       CASE WHEN g.trips > 0 THEN g.open_until END AS breaker_until,
       CASE WHEN s.rate_per_second IS NOT NULL THEN now() + make_interval(secs => greatest(0, (1 - least(
           coalesce(s.rate_burst, greatest(ceil(s.rate_per_second), 1)),
           g.tokens + extract(epoch FROM now() - g.refilled_at)::double precision * s.rate_per_second)) / s.rate_per_second))
       END AS rate_until,
       f.failing_since, f.last_outcome AS failure_outcome, f.last_status AS failure_status, now() AS now,
       (SELECT count(*) FROM (SELECT FROM hookwire.deliveries d WHERE d.subscription_id = s.id LIMIT 1000) AS few) AS waiting,
       (SELECT nullif(d.due_at, 'infinity') FROM hookwire.deliveries d
        WHERE d.subscription_id = s.id ORDER BY d.due_at LIMIT 1) AS next_due_at,
       greatest(f.succeeded_at, (
           SELECT max(a.started_at) FROM (
               SELECT x.started_at, x.decision FROM hookwire.attempts x
               WHERE x.subscription_id = s.id ORDER BY x.event_id DESC LIMIT 20) AS a
           WHERE a.decision = 'delivered')) AS last_success_at
FROM hookwire.subscriptions s
LEFT JOIN hookwire.delivery_gates g ON g.subscription_id = s.id
LEFT JOIN hookwire.delivery_failures f ON f.subscription_id = s.id;
COMMENT ON VIEW hookwire.receivers IS
    'Subscriptions with all that decides when they are sent to next: lease, pause, breaker, rate limit, failures.';

-- --- the direct path (docs/adr/0047-the-direct-path.md) ---

-- The drafts that may take the direct path, with their audience. A draft that is not returned takes the outbox.
--
-- One statement, so that all conditions hold at one moment: an event leaves the outbox in the statement that makes its
-- deliveries. The caller holds the stripes of the keys, so every earlier event of a key is committed. It also keeps
-- subscriptions from being activated or changed until COMMIT (RR-10). An event in slices keeps its outbox row, so its
-- cursor is not looked for. A snapshot older than the locks would show none of this: hence only READ COMMITTED.
CREATE FUNCTION hookwire.direct_audience(
    tenant text, units integer[], topics text[], keys text[], orders boolean[], routes text[], busy integer[],
    terms hookwire.direct_terms
) RETURNS SETOF hookwire.direct_delivery
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    in_tenant CONSTANT text := direct_audience.tenant;
BEGIN
    RETURN QUERY
    WITH draft AS MATERIALIZED (
        -- Of two events of a key in one commit the second waits for the first.
        SELECT q.n, q.topic, q.key
        FROM (SELECT d.n::integer AS n, d.unit, d.topic, d.key, d.ordered, d.route,
                     count(*) OVER (PARTITION BY d.key) AS of_key
              FROM unnest(units, topics, keys, orders, routes) WITH ORDINALITY AS d(unit, topic, key, ordered, route, n)) AS q
        WHERE q.unit <> ALL (busy) AND 'webhooks' = ANY (string_to_array(q.route, ','))
          AND (SELECT t.name FROM hookwire.topics t WHERE t.tenant = in_tenant AND t.name = q.topic) IS NOT NULL
          AND (q.key IS NULL OR (q.ordered AND q.of_key = 1 AND (
                  SELECT o.id FROM hookwire.outbox o
                  WHERE o.sink = 'webhooks' AND o.shard = hookwire.shard_of(hookwire.lane_digest(q.topic, q.key))
                    AND o.id >= terms.low
                  ORDER BY o.id LIMIT 1) IS NULL))
    ), pattern AS MATERIALIZED (
        SELECT x.id, x.topic_regex FROM hookwire.subscriptions x
        WHERE x.tenant = in_tenant AND x.state = 'active' AND x.topic_regex IS NOT NULL
        LIMIT terms.patterns_max + 1
    ), chosen AS MATERIALIZED (
        SELECT d.n, d.key, s.id
        FROM draft d CROSS JOIN LATERAL (
            SELECT x.id FROM hookwire.subscriptions x
            WHERE x.tenant = in_tenant AND x.topic = d.topic AND x.state = 'active' AND x.topic_regex IS NULL
            LIMIT terms.deliveries_max + 1
        ) AS s
        UNION ALL
        SELECT d.n, d.key, p.id FROM draft d CROSS JOIN pattern p WHERE d.topic ~ p.topic_regex
    ), owed AS MATERIALIZED (
        -- is_plain: nothing has to be judged, counted or waited for. The lane of a pattern holds the key in other topics,
        -- too, whose stripes are not held here.
        SELECT c.n, s.*,
               s.is_usual AND (SELECT g.subscription_id FROM hookwire.delivery_gates g
                               WHERE g.subscription_id = s.id AND g.trips > 0) IS NULL
               AND (s.lane IS NULL OR (SELECT x.event_id FROM hookwire.deliveries x
                                       WHERE x.subscription_id = s.id AND x.lane = s.lane
                                       ORDER BY x.event_id LIMIT 1) IS NULL) AS is_plain
        FROM chosen c CROSS JOIN LATERAL (
            SELECT x.id, x.version,
                   coalesce(x.timeout_seconds, terms.timeout_seconds) + terms.lease_margin_seconds AS lease_seconds,
                   CASE WHEN x.ordered THEN c.key END AS lane,
                   x.protocol IN ('webhook', 'websub') AND x.filter_path IS NULL AND x.rate_per_second IS NULL
                   AND NOT x.at_most_once AND x.format <> 'batch' AND NOT (x.ordered AND x.topic_regex IS NOT NULL)
                   AND (x.paused_until IS NULL OR x.paused_until <= clock_timestamp()) AS is_usual
            FROM hookwire.subscriptions x
            WHERE x.id = c.id
              AND (x.protocol NOT IN ('webhook', 'websub') OR x.lease_until IS NULL OR x.lease_until > clock_timestamp())
            LIMIT 1
        ) AS s
    )
    SELECT d.n, o.id, o.version, o.lease_seconds, o.lane
    FROM draft d LEFT JOIN owed o ON o.n = d.n
    WHERE NOT EXISTS (SELECT FROM owed x WHERE x.n = d.n AND NOT x.is_plain)
      AND (SELECT count(*) FROM chosen) <= terms.deliveries_max
      AND (SELECT count(*) FROM pattern) <= terms.patterns_max
      AND (SELECT h.id FROM hookwire.held h WHERE h.sink = 'webhooks' ORDER BY h.id LIMIT 1) IS NULL
      AND (SELECT h.topic FROM hookwire.holds h WHERE h.sink = 'webhooks' LIMIT 1) IS NULL
      -- While a layout is changed, the leases are closed.
      AND (SELECT t.grp FROM hookwire.relay_terms t WHERE t.sink = 'webhooks' AND NOT t.is_open LIMIT 1) IS NULL
      AND hookwire.origin() = terms.origin
      AND current_setting('transaction_isolation') = 'read committed';
END
$$;

-- A transaction that activates or changes a subscription waits, at its COMMIT, for the direct commits that read the
-- subscriptions before. Later commits see the change, or take the outbox. The transaction takes one of eight locks, so that
-- several can be committed at once. A direct commit takes all of them, shared. At COMMIT a transaction waits for no other
-- lock any more, so this lock takes part in no deadlock.
CREATE FUNCTION hookwire.await_direct_commits() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1215262575, pg_backend_pid() & 7);
    RETURN NULL;
END
$$;

CREATE CONSTRAINT TRIGGER await_direct_commits_made AFTER INSERT ON hookwire.subscriptions
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.state = 'active')
    EXECUTE FUNCTION hookwire.await_direct_commits();

CREATE CONSTRAINT TRIGGER await_direct_commits_changed AFTER UPDATE ON hookwire.subscriptions
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN ((NEW.version, NEW.state, NEW.topic) IS DISTINCT FROM (OLD.version, OLD.state, OLD.topic)
          OR (NEW.protocol <> 'pull' AND NEW.lease_until IS DISTINCT FROM OLD.lease_until))
    EXECUTE FUNCTION hookwire.await_direct_commits();

-- --- partitions of events and attempts ---

CREATE TABLE hookwire.id_watermarks (
    day date PRIMARY KEY,
    last_id bigint NOT NULL
);
COMMENT ON TABLE hookwire.id_watermarks IS 'The last event id of each day: the rate by which partitions are made ahead.';
COMMENT ON COLUMN hookwire.id_watermarks.last_id IS 'The last event id that was drawn on that day.';

-- Make the partitions of events and attempts for the ids of the next 30 days at the current rate, at least `spare` of them.
-- By LIKE and ATTACH, which inserts of other sessions do not wait for (RR-05). Return how many were made.
CREATE FUNCTION hookwire.ensure_partitions(spare integer DEFAULT 3) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    size CONSTANT bigint := 10000000;
    current_id bigint;
    ids_per_day bigint;
    target bigint;
    lower_id bigint;
    made integer := 0;
    parent text;
    child text;
BEGIN
    -- One maker at a time; the class is hookwire's, the number is this duty's.
    PERFORM pg_advisory_xact_lock(1215262571, -1);
    SELECT last_value INTO current_id FROM hookwire.event_id;
    INSERT INTO hookwire.id_watermarks AS w (day, last_id) VALUES (current_date, current_id)
        ON CONFLICT (day) DO UPDATE SET last_id = excluded.last_id;
    SELECT coalesce((current_id - min(last_id)) / greatest(count(*) - 1, 1), 0) INTO ids_per_day
        FROM hookwire.id_watermarks WHERE day >= current_date - 7;
    target := current_id + greatest(30 * ids_per_day, spare * size);
    lower_id := (current_id / size) * size;
    WHILE lower_id <= target LOOP
        FOREACH parent IN ARRAY ARRAY['events', 'attempts'] LOOP
            child := parent || '_' || lpad((lower_id / size)::text, 8, '0');
            IF to_regclass('hookwire.' || child) IS NULL THEN
                EXECUTE format('CREATE TABLE hookwire.%I (LIKE hookwire.%I INCLUDING ALL)', child, parent);
                EXECUTE format('ALTER TABLE hookwire.%I ATTACH PARTITION hookwire.%I FOR VALUES FROM (%s) TO (%s)',
                               parent, child, lower_id, lower_id + size);
                made := made + 1;
            END IF;
        END LOOP;
        lower_id := lower_id + size;
    END LOOP;
    RETURN made;
END
$$;

SELECT hookwire.ensure_partitions();
