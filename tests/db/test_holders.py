"""db/holders.py: whoever holds a lock is named, in a wait and after one in vain."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg
import pytest
from structlog.testing import capture_logs

from db.errors import Busy
from db.holders import naming_blockers
from db.pool import PoolOptions, open_database
from db.statements import STATEMENTS
from tests.waiting import until

_HOLD = "UPDATE hookwire.installation SET payload_bytes_max = payload_bytes_max"
_TEXTS = {
    "session": r"process \d+ \(psql, role \w+, idle in transaction\)",
    "prepared": r"prepared transaction it's mine \(role \w+\)",
}


@asynccontextmanager
async def held(url: str, kind: str) -> AsyncIterator[None]:
    """Another session, or a prepared transaction, holds a row."""
    connection = await asyncpg.connect(url, server_settings={"application_name": "psql"})
    await connection.execute(f"BEGIN; {_HOLD}")
    if kind == "prepared":
        await connection.execute("PREPARE TRANSACTION 'it''s mine'")
    try:
        yield
    finally:
        with suppress(asyncpg.PostgresError):
            await connection.execute("ROLLBACK PREPARED 'it''s mine'" if kind == "prepared" else "ROLLBACK")
        await connection.close()


@pytest.mark.parametrize("kind", _TEXTS)
async def test_after_a_wait_in_vain_the_log_names_the_holder(database_url_both: str, kind: str) -> None:
    """GS-08: whatever kind of session or transaction that is."""
    database = await open_database(PoolOptions(database_url_both, lock_seconds=0.5))
    waiting = database.with_statements({**STATEMENTS, "test.wait": _HOLD})
    try:
        async with held(database_url_both, kind):
            with capture_logs() as logs:
                with pytest.raises(Busy):
                    await waiting.execute("test.wait")
                await until(lambda: asyncio.sleep(0, logs))
    finally:
        await database.aclose()

    [line] = logs
    ended_by = "ROLLBACK PREPARED 'it''s mine'" if kind == "prepared" else r"SELECT pg_terminate_backend\(\d+\)"
    assert (line["event"], line["seconds"] >= 0.5) == ("lock_held", True)
    assert [line["holder"], line["ended_by"]] == [_matching(_TEXTS[kind]), _matching(ended_by)]


@pytest.mark.parametrize("kind", _TEXTS)
async def test_during_a_wait_its_blocker_is_named(database_url_both: str, kind: str) -> None:
    """GS-08: as migrations do it."""
    waiting, other = [await asyncpg.connect(database_url_both) for _ in range(2)]
    told: list[str] = []

    async def ask(name: str, pid: int) -> Any:
        return await other.fetch(STATEMENTS[name], pid)

    async with held(database_url_both, kind):
        async with naming_blockers(waiting.get_server_pid(), ask, told.append, 0.05):
            wait = asyncio.create_task(waiting.execute(_HOLD))
            await until(lambda: asyncio.sleep(0, told))
        wait.cancel()
        with suppress(asyncio.CancelledError):
            await wait
    for connection in (waiting, other):
        connection.terminate()

    assert told[0] == _matching(f"held by {_TEXTS[kind]}, ended by .*")


class _matching:  # noqa: N801 - reads like a value
    """Equal to each text that the pattern matches."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern

    def __eq__(self, other: object) -> bool:
        return re.fullmatch(self._pattern, str(other)) is not None

    def __repr__(self) -> str:
        return self._pattern

    __hash__ = None  # type: ignore[assignment]
