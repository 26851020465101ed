"""Election: choose the process that relays a partition group of a sink. ``port`` is the interface for a relay.
Adapters: ``lease`` (PostgreSQL, the default) and ``neli`` (a Kafka consumer group, with its machine without I/O in
``neli_core``).
"""
