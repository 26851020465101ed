"""Defaults of a database for its sessions that differ from PostgreSQL's own (GB-07)."""

from urllib.parse import urlsplit

import asyncpg

_HOSTILE = {
    "default_transaction_isolation": "serializable",
    "default_transaction_deferrable": "on",
    "statement_timeout": "7s",
    "lock_timeout": "7s",
    "idle_in_transaction_session_timeout": "7s",
    "idle_session_timeout": "7s",
    "timezone": "Asia/Kathmandu",
    "DateStyle": "SQL, DMY",
    "IntervalStyle": "sql_standard",
    "bytea_output": "escape",
    "extra_float_digits": "-15",
    "standard_conforming_strings": "off",
    "backslash_quote": "off",
    "array_nulls": "off",
    "transform_null_equals": "on",
    "quote_all_identifiers": "on",
    "row_security": "off",
    "gin_fuzzy_search_limit": "1",
    "exit_on_error": "on",
    "plan_cache_mode": "force_custom_plan",
    "jit": "on",
    "enable_seqscan": "on",
    "synchronous_commit": "off",
    "plpgsql.extra_errors": "all",
}


async def make_hostile(url: str) -> None:
    """Give the sessions of a database defaults that no statement of ours was written for."""
    connection = await asyncpg.connect(url)
    await connection.execute("LOAD 'plpgsql'")
    for name, value in _HOSTILE.items():
        await connection.execute(f"ALTER DATABASE {urlsplit(url).path[1:]} SET {name} = '{value}'")
    await connection.close()
