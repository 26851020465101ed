-- PubSubHubbub 0.3 (setting websub_pshb = strict03): how a request wants to be verified, and what outlives its lease.

ALTER TABLE hookwire.intents
    ADD COLUMN verify text CHECK (verify IN ('sync', 'async')),     -- NULL: WebSub, which knows no choice
    ADD COLUMN permanent boolean NOT NULL DEFAULT false;            -- no lease was asked for: refreshed before it ends

ALTER TABLE hookwire.subscriptions
    ADD COLUMN pshb03 boolean NOT NULL DEFAULT false,               -- made by 0.3: no hub.mode=denied (PS-17)
    ADD COLUMN permanent boolean NOT NULL DEFAULT false,            -- PS-08, PS-09
    ADD COLUMN verify_token text;                                   -- echoed when a permanent one is refreshed

CREATE INDEX subscriptions_permanent ON hookwire.subscriptions (lease_until)
    WHERE permanent AND protocol = 'websub' AND state IN ('active', 'disabled');
