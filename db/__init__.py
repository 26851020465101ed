"""db remembers. It holds the pool, the migrations, the embedded server, and every SQL statement.

Statements live in ``db/sql/<noun>.sql`` under names and are called by name, never by text::

    -- name: claim                      await database.fetch("outbox.claim", ...)
    SELECT ...

One event in tables
-------------------

::

    hookwire.publish()            relay/harvester                webhooks/worker
          |                              |                             |
          v                              v                             v
     events  ---- one row per sink --> outbox ---- webhooks ----> deliveries ---> attempts
    (payload)                            |                             |
                                         +--> Kafka, AMQP              +--> dead_letters

``events``, partitioned by id, keeps the payload once. ``outbox`` holds one slim row for each sink that has not got the
event yet. The fan-out turns the webhooks row into one ``deliveries`` row for each matching subscription. The same
transaction purges the outbox row, so this happens exactly once. An ended delivery leaves its ``attempts`` and, if it
was given up, a ``dead_letters`` row.

One SQL function, ``hookwire.publish_batch``, chooses stripe, shard and sinks, because it has three callers: HTTP, plain
SQL and the SDK.

This room imports no other room. Foreign exceptions end here: see ``db.errors``.
"""
