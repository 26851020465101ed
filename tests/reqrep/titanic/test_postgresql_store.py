"""The store in PostgreSQL beside busy processes; `tests/contract` has all that the stores have in common."""

from __future__ import annotations

import time
from typing import Any

from reqrep.titanic.postgresql_store import PostgresqlRequestStore


class BusyDatabase:
    """The number of requests has risen at each look."""

    def __init__(self) -> None:
        self.looks = 0

    async def fetchval(self, name: str, *_: object) -> int:
        assert name == "request.last_number"
        self.looks += 1
        return self.looks


async def test_requests_of_busy_processes_are_looked_for_at_intervals() -> None:
    """ZP-34: a look after each wake-up would ask the database without end."""
    database: Any = BusyDatabase()
    store, began = PostgresqlRequestStore(database, look_seconds=(0.02, 0.1)), time.monotonic()
    for _ in range(20):
        await store.changed(60)

    assert (database.looks, time.monotonic() - began >= 20 * 0.02) == (20, True)
