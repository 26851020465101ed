"""Election: who relays which partition group of a sink.

``port`` is what a relay asks for. Adapters: ``lease`` (PostgreSQL, the default) and ``neli`` (a Kafka consumer group,
with its machine without I/O in ``neli_core``).
"""
