"""db remembers: the pool, the migrations, the embedded server, and every SQL statement.

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

``events``, partitioned by id, keeps the payload once. ``outbox`` holds one slim row for each sink that the
event is still owed to. The fan-out turns the webhooks row into one ``deliveries`` row per matching
subscription, in the transaction that purges the outbox row, hence exactly once. A delivery that ends
leaves its ``attempts`` and, if it was given up, a ``dead_letters`` row.

The rule "which stripe, which shard, which sinks" is written once, in the SQL function
``hookwire.publish_batch``, because three writers use it: HTTP, plain SQL and the SDK.

This room imports nothing of ours. Foreign exceptions end here: see ``db.errors``.
"""
