"""Outbox tables of others, relayed by goharvest's rules: goharvest's own (compat mode), or any table by a mapping.

``compat`` is the harvester, ``outbox_table`` its port. Adapters: ``compat_table`` (PostgreSQL) and ``maria_table``
(MariaDB and MySQL, with ``maria_election`` and ``maria_installation``) for goharvest's table. ``mapped_table`` and
``maria_mapped_table``, with ``mapping`` and ``mapped_rows``, are for any table.
"""
