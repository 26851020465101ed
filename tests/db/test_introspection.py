"""What a session asks about types: of the built-in ones once in a process."""

from collections.abc import Iterable
from contextlib import aclosing
from typing import Any

import asyncpg
import pytest

import db.session
from db.pool import PoolOptions, open_database


@pytest.mark.parametrize(
    ("statement", "times"), [("SELECT ARRAY[1::bigint, 2]", 1), ("SELECT ARRAY[ROW(1, 2)::pair]", 2)]
)
async def test_a_built_in_type_is_asked_for_once(
    database_url: str, statement: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A type of the database may differ from that of another server, so each session asks."""
    ask, asked = asyncpg.Connection._introspect_types, []  # type: ignore[attr-defined]

    async def counted(self: Any, types: Iterable[int], timeout: float | None) -> Any:
        asked.append([*types])
        return await ask(self, types, timeout)

    monkeypatch.setattr(asyncpg.Connection, "_introspect_types", counted)
    monkeypatch.setattr(db.session, "_BUILT_IN", {})
    answers = []
    for _ in range(2):
        async with aclosing(await open_database(PoolOptions(database_url))) as database, database.lend() as session:
            await session.execute("DROP TYPE IF EXISTS pair; CREATE TYPE pair AS (a integer, b integer)")
            answers.append(await session.fetchval(statement))
    assert (len(asked), answers) == (times, 2 * [answers[0]])
