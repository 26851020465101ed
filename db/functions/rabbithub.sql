-- SQL functions as all migrations together make them. Written by `make schema`, never by hand.

CREATE OR REPLACE FUNCTION hookwire.ensure_built_in_exchanges(tenant text, vhost text)
 RETURNS void
 LANGUAGE sql
BEGIN ATOMIC
 INSERT INTO hookwire.rabbithub_resources (tenant, vhost, kind, name, exchange_type)  SELECT ensure_built_in_exchanges.tenant AS tenant,
             ensure_built_in_exchanges.vhost AS vhost,
             'x',
             b.name,
             b.exchange_type
            FROM ( VALUES (''::text,'direct'::text), ('amq.direct'::text,'direct'::text), ('amq.fanout'::text,'fanout'::text), ('amq.topic'::text,'topic'::text), ('amq.headers'::text,'headers'::text), ('amq.match'::text,'headers'::text)) b(name, exchange_type) ON CONFLICT DO NOTHING;
END;
COMMENT ON FUNCTION hookwire.ensure_built_in_exchanges(text,text) IS
'Make the exchanges that every virtual host of a broker has.';
REVOKE EXECUTE ON FUNCTION hookwire.ensure_built_in_exchanges(text,text) FROM PUBLIC;
