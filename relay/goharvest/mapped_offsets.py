"""MappedOffsets: an append-only outbox table in PostgreSQL and its offset, for :mod:`relay.goharvest.offset_table`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from db.pool import Database
from relay.goharvest.mapped_table import looked_at
from relay.goharvest.mapping import OutboxMapping
from relay.goharvest.offset_table import Horizon
from relay.sink import Term

__all__ = ["MappedOffsets"]


class MappedOffsets:
    """An `OffsetStore`. The offset is a row of ``hookwire.outbox_offsets``."""

    def __init__(self, database: Database, mapping: OutboxMapping) -> None:
        self._plain = self._database = database
        self._mapping = mapping

    async def look_at(self) -> None:
        """Check the expressions, their types by name, and the right to read."""
        self._database = await looked_at(self._plain, self._mapping)

    async def horizon(self) -> Horizon:
        """Return how far the table reaches, and which transactions run."""
        row = await self._database.fetchrow("mapped.horizon")
        assert row is not None, "it returns one row"
        return Horizon(row["place"], row["next_id"], row["oldest_id"])

    async def behind(self, term: Term, until: int, limit: int) -> Sequence[Mapping[str, Any]]:
        """Return the first rows behind the offset and up to ``until``."""
        given = self._mapping.name, term.group, term.number, until, limit
        return await self._database.fetch("mapped.claim_behind", *given)

    async def advance(self, term: Term, place: int) -> bool:
        """Set the offset forward; return whether the term still holds."""
        return bool(await self._database.execute("mapped.advance", self._mapping.name, term.group, term.number, place))
