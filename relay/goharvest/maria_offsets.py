"""MariaOffsets: an append-only outbox table in MariaDB or MySQL and its offset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from db.mariadb.database import MariaDatabase
from relay.goharvest.mapping import OutboxMapping
from relay.goharvest.maria_mapped_table import maria_record_row
from relay.goharvest.maria_mapping import maria_looked_at
from relay.goharvest.offset_table import Horizon
from relay.sink import Term

__all__ = ["MariaOffsets"]


class MariaOffsets:
    """An `OffsetStore`. The offset is a row of ``hookwire_offsets``. No transaction of others is seen."""

    def __init__(self, database: MariaDatabase, mapping: OutboxMapping) -> None:
        self._database = database
        self._mapping = mapping

    async def look_at(self) -> None:
        """Check the columns, and the expressions with their types by name."""
        self._database = await maria_looked_at(self._database, self._mapping)

    async def horizon(self) -> Horizon:
        """Return how far the table reaches."""
        return Horizon(await self._database.fetchval("mapped.horizon"), 0, 0)

    async def behind(self, term: Term, until: int, limit: int) -> Sequence[Mapping[str, Any]]:
        """Return the first rows behind the offset and up to ``until``."""
        rows = await self._database.fetch(
            "mapped.claim_behind", outbox=self._mapping.name, term=term.number, until=until, limit=limit
        )
        return [maria_record_row(row) for row in rows]

    async def advance(self, term: Term, place: int) -> bool:
        """Set the offset forward; return whether the term still holds."""
        done = await self._database.execute("mapped.advance", outbox=self._mapping.name, term=term.number, place=place)
        return done.rows > 0
