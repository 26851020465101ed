-- The subscriptions of a callback's host, for the search of the console. The names of hosts do not tell cases apart.
-- The condition keeps the index from other statements: on an empty table the planner would look for an id in it.
CREATE INDEX IF NOT EXISTS subscriptions_callback_host ON hookwire.subscriptions
    ((lower(substring(callback, '^[^:/?#]+://(?:[^/?#@]*@)?(\[[^]]*\]|[^/?#:]*)') COLLATE "C")), id) WHERE callback <> '';
