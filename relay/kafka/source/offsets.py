"""Offsets of a source in the database: where each partition goes on, and what its reader reports."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from db.pool import Database

__all__ = ["FanoutBacklog", "Position", "SourceOffsets"]

_BACKLOG_SECONDS = 1.0


class Position(NamedTuple):
    """Where a partition goes on, and the last record that was taken: its offset and its digest, if there is one."""

    next_offset: int
    last_offset: int | None
    last_digest: bytes | None


class FanoutBacklog:
    """The look of all sources of a process at the events that wait for their fan-out to webhooks: one a second."""

    def __init__(self, database: Database, events_max: int) -> None:
        self._database = database
        self._events_max = events_max
        self._lock = asyncio.Lock()
        self._is_full = False
        self._look_again_at = 0.0

    async def is_full(self) -> bool:
        """Return whether about ``events_max`` wait, as of the last second. Raises ``DatabaseError``."""
        async with self._lock:
            if time.monotonic() >= self._look_again_at:
                found = await self._database.fetchval("source.backlog", self._events_max)
                self._is_full, self._look_again_at = found >= self._events_max, time.monotonic() + _BACKLOG_SECONDS
            return self._is_full


class SourceOffsets:
    """The rows of one source. Every method raises ``DatabaseError``."""

    def __init__(self, database: Database, source: str, reader: str, backlog: FanoutBacklog) -> None:
        self._database = database
        self._source = source
        self._reader = reader
        self._backlog = backlog

    async def is_paused(self) -> bool:
        """Return whether a person has paused the source."""
        return bool(await self._database.fetchval("source.is_paused", self._source))

    async def is_behind(self) -> bool:
        """Return whether so many events wait for their fan-out to webhooks that no more are taken."""
        return await self._backlog.is_full()

    async def known(self) -> set[int]:
        """Return the partitions that were read."""
        rows = await self._database.fetch("source.partitions", self._source)
        return {row["partition"] for row in rows}

    async def begin(self, firsts: Mapping[int, int]) -> None:
        """Note where partitions begin that were never read."""
        await self._database.execute("source.begin", self._source, [*firsts], [*firsts.values()])

    async def get(self, partition: int) -> Position | None:
        """Return where a partition goes on; None if it was never read."""
        row = await self._database.fetchrow("source.offset", self._source, partition)
        return None if row is None else Position(row["next_offset"], row["last_offset"], row["last_digest"])

    async def report(self, partitions: Sequence[tuple[int, int | None, float, str | None]]) -> None:
        """Note for each partition its end, the records a second, and why its reader does not go on."""
        columns = [[*column] for column in zip(*partitions, strict=True)]
        await self._database.execute("source.report", self._source, self._reader, *columns)
