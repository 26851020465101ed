"""relay/kafka/source/offsets.py: what sources ask the database, without one."""

from __future__ import annotations

import asyncio
from typing import Any

from relay.kafka.source.offsets import FanoutBacklog, SourceOffsets


class Database:
    """Counts how often it is asked; 100 events wait."""

    def __init__(self) -> None:
        self.asked = 0

    async def fetchval(self, *_: object) -> int:
        self.asked += 1
        await asyncio.sleep(0)
        return 100


async def test_all_sources_of_a_process_share_one_look_at_the_backlog() -> None:
    """Each of a hundred topics of a pattern counted it every two seconds."""
    database: Any = Database()
    backlog = FanoutBacklog(database, 100)
    sources = [SourceOffsets(database, f"shop-{number}", "a-1", backlog) for number in range(20)]
    found = await asyncio.gather(*(source.is_behind() for source in sources))

    assert (database.asked, {*found}) == (1, {True})
