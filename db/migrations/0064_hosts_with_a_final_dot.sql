-- The search by a callback's host finds names with a final dot, too: the dot does not count. See 0061.
CREATE INDEX IF NOT EXISTS subscriptions_host ON hookwire.subscriptions
    ((rtrim(lower(substring(callback, '^[^:/?#]+://(?:[^/?#@]*@)?(\[[^]]*\]|[^/?#:]*)') COLLATE "C"), '.')), id) WHERE callback <> '';
DROP INDEX IF EXISTS hookwire.subscriptions_callback_host;
