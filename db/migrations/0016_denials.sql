-- Denial (W3C WebSub 5.2): a publisher is asked before its topic is given away, and a subscription can be revoked.

-- Who decides about subscribe requests for this topic; NULL: nobody is asked (WS-35).
ALTER TABLE hookwire.topics ADD COLUMN validator_url text;

-- What is to be done next about an open request: ask the publisher, ask the callback, or tell it that it is denied.
ALTER TABLE hookwire.intents
    ADD COLUMN stage text NOT NULL DEFAULT 'verify' CHECK (stage IN ('validate', 'verify', 'deny')),
    ADD COLUMN stage_from integer NOT NULL DEFAULT 0,       -- attempts before this stage: each has tries of its own
    ADD COLUMN denial text,                                 -- what the callback is told in hub.reason
    ADD COLUMN requester text,                              -- the address that the form came from, for the publisher
    DROP CONSTRAINT intents_state_check,
    ADD CONSTRAINT intents_state_check
        CHECK (state IN ('requested', 'verifying', 'verified', 'failed', 'superseded', 'denied')),
    DROP CONSTRAINT intents_check1,
    ADD CONSTRAINT intents_lease_check CHECK ((lease_seconds IS NULL) = (mode = 'unsubscribe' OR stage = 'deny'));
