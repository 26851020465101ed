"""pipeline analyses: the event stream in a lake, on Spark through PySpark.

::

    Kafka --archive--> bronze --clean--> silver --aggregate--> gold
                       (raw, never        (one row per         (per topic, per hour,
                        deduplicated)      event id)            per subscriber)
                          |
                          +--replay--> POST /topics/{topic}/events      through the hub's API, as other publishers do

    ledger of publish --.
    ledger of purge ----+--audit--> what was accepted, and where it is missing, doubled or late
    bronze, deliveries -'

* **Archive**: exactly once into Delta tables; offsets and files are one commit (``pipeline.lake``). Bronze is
  every record as it lay in Kafka, repeats included; silver drops those by event id.
* **Audit**: the counts that publishing and purging leave behind are compared with what arrived in Kafka, in AMQP and
  at webhooks. It proves that nothing went missing, or names what did.
* **Replay**: reads the lake, publishes with an Idempotency-Key made from the event id.

A job is a function of DataFrames; sources, tables and the command line are small adapters round it. Two Kafka sources
with the same columns: the JVM connector for clusters, and a Python data source which needs no jar. One factory makes
the session. Spark is an optional extra: a hub without a pipeline does not install it.

It shares ``openapi/event.schema.json`` with the other rooms and no code.
"""
