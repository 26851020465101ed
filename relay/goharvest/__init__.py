"""goharvest's own outbox table, relayed to Kafka by goharvest's rules (compat mode).

``compat`` is the harvester, ``outbox_table`` its port. Adapters: ``compat_table`` (PostgreSQL) and ``maria_table``
(MariaDB and MySQL, with ``maria_election`` and ``maria_installation``).
"""
