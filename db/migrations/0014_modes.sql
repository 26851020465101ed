-- Modes (WH-O01): at least once unless at_most_once or ordered. on_exhausted: what happens to a key of an ordered
-- subscription when the head of its lane has used up its schedule (WH-O03); 'park' keeps it, and the key waits.
ALTER TABLE hookwire.subscriptions
    ADD COLUMN at_most_once boolean NOT NULL DEFAULT false,
    ADD COLUMN on_exhausted text NOT NULL DEFAULT 'skip' CHECK (on_exhausted IN ('park', 'skip')),
    ADD CONSTRAINT subscriptions_mode_check CHECK (NOT (at_most_once AND ordered));

-- Set: the head of a lane that somebody has to decide about. It is due at infinity, and so is what waits behind it.
ALTER TABLE hookwire.deliveries ADD COLUMN parked_at timestamptz;

ALTER TABLE hookwire.attempts DROP CONSTRAINT attempts_decision_check;
ALTER TABLE hookwire.attempts
    ADD CONSTRAINT attempts_decision_check CHECK (decision IN ('delivered', 'retry', 'park', 'dead', 'dropped'));
