"""The schema explains itself: each table, view, function, and column that is not obvious has a comment (HO-08)."""

import asyncpg

_NAMES = """
    accepted_at actor amqp_exchange amqp_exchange_type amqp_routing_key answered_at applied_at at attempts
    attempts_max backoff_seconds_max backoff_seconds_min body_bytes callback changed_at claimed_at closed_at
    content_type created_at day decided_at description detail died_at ended_at event_id exchange_type expires_at
    fetched_at finish_time first_byte_seconds first_error_at headers host hour id is_paused job_id kafka_topic key
    kind last_error last_error_at last_status layout lease_seconds lease_until mark_at name payload
    payload_bytes_max priority public_id queue rate_per_second reason refilled_at reply reply_bytes
    reply_content_type request_id result revoked_at run_seconds service signature_method sink start_time started_at
    state status subscription subscription_id tenant topic total_seconds updated_at vhost worker
"""
OBVIOUS = frozenset(_NAMES.split())
"""Names that say what their column holds, in each table that has one without a comment."""

RELATIONS = """
    SELECT c.relname, c.relkind::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'hookwire' AND c.relkind IN ('r', 'p', 'v') AND NOT c.relispartition
      AND obj_description(c.oid, 'pg_class') IS NULL ORDER BY 1
"""
FUNCTIONS = """
    SELECT p.oid::regprocedure::text FROM pg_proc p
    WHERE p.pronamespace = 'hookwire'::regnamespace AND obj_description(p.oid, 'pg_proc') IS NULL ORDER BY 1
"""
COLUMNS = """
    SELECT c.relname, a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'hookwire' AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND a.attnum > 0
      AND NOT a.attisdropped AND col_description(c.oid, a.attnum) IS NULL ORDER BY 1, 2
"""


async def test_each_table_and_each_view_has_a_comment(database_url: str) -> None:
    """HO-08: a migration that adds one says what it holds; `db/schema.sql` prints it."""
    connection = await asyncpg.connect(database_url)
    try:
        without = [tuple(row) for row in await connection.fetch(RELATIONS)]
    finally:
        await connection.close()
    assert without == []


async def test_each_function_has_a_comment(database_url: str) -> None:
    """GH-02: a migration that makes one says what it is for: `COMMENT ON FUNCTION`; `db/functions` prints it."""
    connection = await asyncpg.connect(database_url)
    try:
        without = [row[0] for row in await connection.fetch(FUNCTIONS)]
    finally:
        await connection.close()
    assert without == []


async def test_each_column_that_is_not_obvious_has_a_comment(database_url: str) -> None:
    """HO-08: and a name that no column needs any more leaves the list above."""
    connection = await asyncpg.connect(database_url)
    try:
        without = [tuple(row) for row in await connection.fetch(COLUMNS)]
    finally:
        await connection.close()
    assert [(table, column) for table, column in without if column not in OBVIOUS] == []
    assert OBVIOUS - {column for _, column in without} == set()
