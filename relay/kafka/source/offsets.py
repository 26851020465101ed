"""Offsets of a source in the database: where each partition goes on, and what its reader reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from db.pool import Database

__all__ = ["Position", "SourceOffsets", "names_like"]


class Position(NamedTuple):
    """Where a partition goes on, and the last record that was taken: its offset and its digest, if there is one."""

    next_offset: int
    last_offset: int | None
    last_digest: bytes | None


class SourceOffsets:
    """The rows of one source. Every method raises ``DatabaseError``."""

    def __init__(self, database: Database, source: str, reader: str) -> None:
        self._database = database
        self._source = source
        self._reader = reader

    async def is_paused(self) -> bool:
        """Return whether a person has paused the source."""
        return bool(await self._database.fetchval("source.is_paused", self._source))

    async def is_behind(self, events_max: int) -> bool:
        """Return whether about so many events wait for their fan-out to webhooks."""
        return bool(await self._database.fetchval("source.backlog", events_max) >= events_max)

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


async def names_like(database: Database, like: str) -> set[str]:
    """Return the sources that were read, whose names are like a pattern of SQL's LIKE. Raises ``DatabaseError``."""
    return {row["name"] for row in await database.fetch("source.names", like)}
