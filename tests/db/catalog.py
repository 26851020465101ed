"""All that a schema is made of, as rows of text: two databases with the same rows have the same schema."""

import re

import asyncpg

_IN_SCHEMA = "'hookwire'::regnamespace"

# Comments of partitions are left out: a partition has those that its table had when it was made. The names of NOT NULL
# constraints, which PostgreSQL 18 has, are left out: a dump of an older server has none, and columns show the rest.
_QUERIES = {
    "schema": f"SELECT nspname, nspacl::text FROM pg_namespace WHERE oid = {_IN_SCHEMA}",
    "relation": f"""
        SELECT relname, relkind, relpersistence, relreplident, relrowsecurity, relispartition, relacl::text,
               reloptions::text, pg_get_partkeydef(c.oid), pg_get_expr(relpartbound, c.oid),
               (SELECT t.reloptions::text FROM pg_class t WHERE t.oid = c.reltoastrelid),
               CASE WHEN relkind IN ('v', 'm') THEN pg_get_viewdef(c.oid) END,
               CASE WHEN NOT relispartition THEN obj_description(c.oid, 'pg_class') END
        FROM pg_class c WHERE relnamespace = {_IN_SCHEMA}""",
    "column": f"""
        SELECT relname, row_number() OVER (PARTITION BY c.oid ORDER BY attnum), attname,
               format_type(atttypid, atttypmod), attnotnull, attidentity, attgenerated, attstorage, attcompression,
               attstattarget, attislocal, attacl::text, attoptions::text, attcollation::regcollation,
               pg_get_expr(adbin, adrelid),
               CASE WHEN NOT relispartition THEN col_description(c.oid, attnum) END
        FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid
        LEFT JOIN pg_attrdef d ON adrelid = attrelid AND adnum = attnum
        WHERE relnamespace = {_IN_SCHEMA} AND attnum > 0 AND NOT attisdropped""",
    "constraint": f"""
        SELECT conrelid::regclass, conname, contype, condeferrable, condeferred, convalidated, conislocal, coninhcount,
               pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace = {_IN_SCHEMA} AND contype <> 'n'""",
    "index": f"""
        SELECT indrelid::regclass, pg_get_indexdef(indexrelid), indisvalid, indisclustered, indisreplident,
               indisprimary, (SELECT inhparent::regclass FROM pg_inherits WHERE inhrelid = indexrelid)
        FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE relnamespace = {_IN_SCHEMA}""",
    "trigger": f"""
        SELECT pg_get_triggerdef(t.oid), tgenabled FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid
        WHERE relnamespace = {_IN_SCHEMA} AND NOT tgisinternal""",
    "function": f"""
        SELECT pg_get_functiondef(oid), proacl::text, obj_description(oid, 'pg_proc')
        FROM pg_proc WHERE pronamespace = {_IN_SCHEMA}""",
    "sequence": f"""
        SELECT relname, seqtypid::regtype, seqstart, seqincrement, seqmax, seqmin, seqcache, seqcycle,
               (SELECT concat(refobjid::regclass, '.', refobjsubid > 0, deptype) FROM pg_depend
                WHERE objid = c.oid AND deptype IN ('a', 'i'))
        FROM pg_sequence JOIN pg_class c ON c.oid = seqrelid WHERE relnamespace = {_IN_SCHEMA}""",
    "other": f"""
        SELECT 'policy', polname FROM pg_policy p JOIN pg_class c ON c.oid = polrelid WHERE relnamespace = {_IN_SCHEMA}
        UNION ALL SELECT 'statistics', stxname FROM pg_statistic_ext WHERE stxnamespace = {_IN_SCHEMA}
        UNION ALL SELECT 'rule', rulename FROM pg_rewrite r JOIN pg_class c ON c.oid = ev_class
                  WHERE relnamespace = {_IN_SCHEMA}
        UNION ALL SELECT 'default privileges', defaclacl::text FROM pg_default_acl WHERE defaclnamespace = {_IN_SCHEMA}
        UNION ALL SELECT 'type', concat_ws(' ', typname, typtype, typacl::text) FROM pg_type
                  WHERE typnamespace = {_IN_SCHEMA}""",
}

_SEEDS = """
    SELECT concat_ws(' ', 'sinks', name, configured) FROM hookwire.sinks
    UNION ALL SELECT concat_ws(' ', 'layouts', number, groups, order_scope, hash_version) FROM hookwire.layouts
    UNION ALL SELECT concat('task_kinds', t::text) FROM hookwire.task_kinds t WHERE kind = '*'
    UNION ALL SELECT concat('job_kinds', t::text) FROM hookwire.job_kinds t WHERE kind = '*'
    UNION ALL SELECT concat_ws(' ', 'exchange', tenant, vhost, kind, name, exchange_type, mirror)
              FROM hookwire.rabbithub_resources
    UNION ALL SELECT concat_ws(' ', 'installation', layout, topics_auto_create, sql_notify, payload_bytes_max,
                               queues_auto_create, kinds_auto_create, services_auto_create) FROM hookwire.installation
    UNION ALL SELECT concat('ledger_cursor ', count(*)) FROM hookwire.ledger_cursor
"""
"""Rows that the migrations write, without moments and random values."""


async def catalog_of(url: str) -> set[tuple[str, ...]]:
    """Return the catalog's rows of the schema, but for its contents.

    Parentheses and blanks are left out: an expression that was dumped and restored has some more or fewer of them.
    """
    connection = await asyncpg.connect(url)
    try:
        return {
            (kind, *(re.sub(r"[\s()]+", "", str(value)) for value in row))
            for kind, query in _QUERIES.items()
            for row in await connection.fetch(query)
        }
    finally:
        await connection.close()


async def seeds_of(url: str) -> set[str]:
    """Return the rows that the migrations write."""
    connection = await asyncpg.connect(url)
    try:
        return {row[0] for row in await connection.fetch(_SEEDS)}
    finally:
        await connection.close()


async def stop_autovacuum(connection: asyncpg.Connection) -> None:
    """Leave the statistics of all tables to the test: on a slow machine autovacuum would come between its steps."""
    for row in await connection.fetch(
        f"SELECT oid::regclass::text FROM pg_class WHERE relnamespace = {_IN_SCHEMA} AND relkind = 'r'"
    ):
        await connection.execute(f"ALTER TABLE {row[0]} SET (autovacuum_enabled = false)")
