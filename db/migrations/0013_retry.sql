-- Retry, per subscription: how old a delivery may grow (NULL: as the hub's setting says), whether a 4xx is final for it
-- (WH-R03), whether a 410 ends the subscription or is a 4xx like others (WH-R09).
ALTER TABLE hookwire.subscriptions
    ADD COLUMN retry_age_seconds_max integer,
    ADD COLUMN on_4xx text NOT NULL DEFAULT 'retry' CHECK (on_4xx IN ('retry', 'give_up')),
    ADD COLUMN on_410 text NOT NULL DEFAULT 'end' CHECK (on_410 IN ('end', 'as_4xx'));

-- With last_outcome, last_status and due_at one row answers "why is it waiting?" (WH-R14).
ALTER TABLE hookwire.deliveries ADD COLUMN last_seconds real;
