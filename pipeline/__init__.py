"""pipeline analyses the event stream: it archives events in a lake and evaluates them with PySpark.

::

    Kafka --archive--> bronze --clean--> silver --aggregate--> gold
                       (raw, never        (one row per         (per topic, per hour,
                        deduplicated)      event id)            per subscriber)
                          |
                          +--replay--> POST /topics/{topic}/events      through the hub's API, as other publishers do

    ledger of publish --.
    ledger of purge ----+--audit--> accepted events that are missing, doubled or late
    bronze, deliveries -'

* **Archive** stores each Kafka record exactly once in Delta tables; offsets and files are one commit
  (``pipeline.lake``). Bronze holds every record as it lay in Kafka, repeats included; silver drops repeats by event id.
* **Audit** compares the counts that publishing and purging leave with the records in Kafka, in AMQP and at webhooks. It
  proves that no event is missing, or names the missing ones.
* **Replay** reads the lake and publishes with an Idempotency-Key made from the event id.

A job is a function of DataFrames; sources, tables and the command line are small adapters. Two Kafka sources have the
same columns: the JVM connector for clusters, and a Python data source that needs no jar. One factory creates the
session. Spark is an optional extra: a hub without a pipeline does not install it.

It shares ``openapi/event.schema.json`` with the other rooms and no code.
"""
