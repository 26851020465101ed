-- Who asked for a WebSub subscription, by network: IPv4 address or IPv6 /64. Verifications take turns between networks, and
-- what a network or a callback's host may have at once is counted. Subscriptions of before get theirs when they renew.
ALTER TABLE hookwire.intents ADD COLUMN requester_network text;
ALTER TABLE hookwire.subscriptions ADD COLUMN callback_host text, ADD COLUMN requester_network text;

CREATE INDEX IF NOT EXISTS intents_of_host ON hookwire.intents (callback_host)
    WHERE state IN ('requested', 'verifying') AND mode = 'subscribe';
CREATE INDEX IF NOT EXISTS intents_of_requester ON hookwire.intents (requester_network)
    WHERE state IN ('requested', 'verifying');
CREATE INDEX IF NOT EXISTS subscriptions_of_host ON hookwire.subscriptions (callback_host)
    WHERE protocol = 'websub' AND state IN ('active', 'disabled');
CREATE INDEX IF NOT EXISTS subscriptions_of_requester ON hookwire.subscriptions (requester_network)
    WHERE protocol = 'websub' AND state IN ('active', 'disabled');
