"""The verdict reads no more of large tables than its bounds allow. GU-01, GU-02, GM-05.

A queue, kind or subscription has more rows than a count may read, and there are more of them than are told. The times
beside a million rows are those of ``benchmarks/verdict.py``.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import asyncpg
import pytest

from app.verdict.facts import DEAD_LETTERS_MAX, read_facts
from benchmarks.verdict import fill
from db.pool import Database, PoolOptions
from db.statements import STATEMENTS

_ROWS = 30_000
_READ_MAX = 10_500
"""Rows of a table or an index that a statement may read: a count of 5,000, or a few look-ups for 500 names."""
_COUNTERS = """
SELECT c.relname, pg_stat_get_xact_tuples_returned(c.oid)
       + CASE c.relkind WHEN 'r' THEN pg_stat_get_xact_tuples_fetched(c.oid) ELSE 0 END AS rows
FROM pg_class c WHERE c.relnamespace = 'hookwire'::regnamespace AND c.relkind IN ('r', 'i')
"""


class Counted:
    """Runs each statement in a transaction of its own, and notes what is read of each table and index."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.read: dict[str, Counter[str]] = {}
        self._connection = connection

    async def fetch(self, name: str, *arguments: Any) -> Any:
        async with self._connection.transaction():
            before = await self._rows()
            found = await self._connection.fetch(STATEMENTS[name], *arguments)
            after = await self._rows()
        self.read[name] = after - before
        return found

    async def fetchrow(self, name: str, *arguments: Any) -> Any:
        return (await self.fetch(name, *arguments))[0]

    async def _rows(self) -> Counter[str]:
        return Counter({row["relname"]: int(row["rows"]) for row in await self._connection.fetch(_COUNTERS)})


@pytest.mark.parametrize("names", [3, _ROWS], ids=["few names with many rows", "many names"])
async def test_the_verdict_reads_no_more_of_large_tables(database_url: str, names: int) -> None:
    """GU-01, GU-02, GM-05: a backlog of 30,000 and of a million cost the same."""
    settings: dict[str, Any] = PoolOptions(database_url).server_settings()
    connection = await asyncpg.connect(database_url, server_settings=settings)
    await fill(connection, _ROWS, names)
    await connection.execute("ANALYZE")  # as autovacuum does after 100,000 rows at the latest
    counted = Counted(connection)
    facts = await read_facts(cast("Database", counted))
    await connection.close(timeout=2)

    dear = {
        (name, relation): rows
        for name, read in counted.read.items()
        for relation, rows in read.items()
        if rows > _READ_MAX
    }
    assert (dear, facts.unknown, len(counted.read)) == ({}, (), 18)
    told = (facts.dead_letters, facts.subscriptions, *facts.work.values())
    assert max(len(rows) for rows in told) <= 2 * DEAD_LETTERS_MAX
