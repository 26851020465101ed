-- Poison (RO-08): what a broker refuses for good can be given up, record by record, and taken up again; whoever does so
-- is on record.
ALTER TABLE hookwire.holds ADD COLUMN id bigint GENERATED ALWAYS AS IDENTITY;
ALTER TABLE hookwire.holds ADD CONSTRAINT holds_id UNIQUE (id);

-- hold_key: the key waits; skip: the record becomes a dead letter and its key goes on; stop: the sink waits. NULL: as
-- the sink's setting says.
ALTER TABLE hookwire.topics
    ADD COLUMN on_refused text CHECK (on_refused IN ('hold_key', 'skip', 'stop'));

-- Records of brokers that were given up. They keep the place that they had in the outbox.
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

-- A record that is taken up again leaves the dead side of the ledger.
ALTER TABLE hookwire.ledger_entries DROP CONSTRAINT ledger_entries_outcome_check;
ALTER TABLE hookwire.ledger_entries
    ADD CONSTRAINT ledger_entries_outcome_check CHECK (outcome IN ('sent', 'dead', 'revived'));

-- Who did what to which thing, and why. Written in the statement that does it.
CREATE TABLE hookwire.audit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT now(),
    tenant text NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    subject text NOT NULL,
    reason text,
    records bigint NOT NULL DEFAULT 1
);

-- Sending events again (WH-P01..P04). A delivery that is made for it names the job, 0 for one that was asked for by
-- itself; its attempts go on counting where those before ended, and its retry schedule starts anew.
ALTER TABLE hookwire.deliveries ADD COLUMN replay_id bigint;

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
    -- Where it has got to, and where it ends: events accepted later are not its business.
    lower_event_id bigint NOT NULL,
    last_event_id bigint NOT NULL,
    last_subscription_id bigint NOT NULL DEFAULT 0,
    upper_event_id bigint NOT NULL,
    examined bigint NOT NULL DEFAULT 0,
    replayed bigint NOT NULL DEFAULT 0,
    due_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX replays_running ON hookwire.replays (due_at) WHERE state = 'running';
