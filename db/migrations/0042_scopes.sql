-- Scopes of keys (docs/how-to/api-keys.md): what a key may do, all of them at once, because keys should change once.
-- payloads: with read, contents are shown; operate: what admin was needed for beside settings; enqueue and work: queues,
-- tasks and jobs; call: services. Whoever could read contents until now still can.
ALTER TABLE hookwire.api_keys
    DROP CONSTRAINT api_keys_scopes_check,
    ADD COLUMN queues text[] CHECK (cardinality(queues) > 0),     -- patterns, as topics; NULL: all, but none where only
    ADD COLUMN kinds text[] CHECK (cardinality(kinds) > 0),       -- topics are named
    ADD COLUMN services text[] CHECK (cardinality(services) > 0);
UPDATE hookwire.api_keys SET scopes = array_append(scopes, 'payloads') WHERE 'read' = ANY (scopes);
ALTER TABLE hookwire.api_keys ADD CONSTRAINT api_keys_scopes_check CHECK (
    scopes <@ ARRAY['publish', 'subscribe', 'read', 'payloads', 'operate', 'enqueue', 'work', 'call', 'admin']
    AND cardinality(scopes) > 0);
