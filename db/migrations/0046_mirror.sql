-- RabbitHub's exchanges may be mirrored to AMQP (FM-02), and those exist that every virtual host of a broker has (FX-04).

-- A relay declares an exchange of this type before it publishes there; NULL: a topic's own exchange has to exist.
ALTER TABLE hookwire.topics
    ADD COLUMN amqp_exchange_type text CHECK (amqp_exchange_type IN ('direct', 'fanout', 'topic', 'headers'));

-- NULL: as the hub's setting says.
ALTER TABLE hookwire.rabbithub_resources ADD COLUMN mirror boolean;

CREATE FUNCTION hookwire.ensure_built_in_exchanges(tenant text, vhost text) RETURNS void
LANGUAGE sql
BEGIN ATOMIC
    INSERT INTO hookwire.rabbithub_resources (tenant, vhost, kind, name, exchange_type)
    SELECT ensure_built_in_exchanges.tenant, ensure_built_in_exchanges.vhost, 'x', b.name, b.exchange_type
    FROM (VALUES ('', 'direct'), ('amq.direct', 'direct'), ('amq.fanout', 'fanout'), ('amq.topic', 'topic'),
                 ('amq.headers', 'headers'), ('amq.match', 'headers')) AS b(name, exchange_type)
    ON CONFLICT DO NOTHING;
END;

SELECT hookwire.ensure_built_in_exchanges(p.tenant, p.vhost)
FROM (SELECT 'default' AS tenant, '/' AS vhost UNION SELECT r.tenant, r.vhost FROM hookwire.rabbithub_resources r) AS p;
