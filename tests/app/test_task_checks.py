"""Check of tasks that are doubled since before the upgrade."""

from __future__ import annotations

import asyncpg

from app.checks.tasks import task_checks
from db.pool import PoolOptions


async def test_tasks_of_before_that_are_doubled_are_named(database_url: str) -> None:
    """GM-04, JB-20: the upgrade deletes nothing, so each of them runs. A live and an ended one are no twins."""
    connection = await asyncpg.connect(database_url)
    await connection.execute(
        "INSERT INTO hookwire.task_rows (id, kind, description, is_unique, finish_time) VALUES"
        " ('a', 'k', 'same', false, NULL), ('b', 'k', 'same', false, NULL), ('c', 'k', 'same', false, now()),"
        " ('d', 'l', 'same', false, NULL), ('e', 'l', 'other', false, NULL), ('f', 'l', 'same', false, now());"
        "UPDATE hookwire.task_rows SET is_unique = NULL"
    )
    await connection.close()

    [check] = await task_checks(PoolOptions(database_url))
    assert (check.level, "k, 'same': a, b" in check.detail, "'l'" in check.detail) == ("warn", True, False)
