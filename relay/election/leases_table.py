"""Leases: one row for each group of a sink in the present layout, created by the first candidate."""

from __future__ import annotations

from collections.abc import Sequence

from db.pool import Database

__all__ = ["ensure_leases"]


async def ensure_leases(database: Database, sinks: Sequence[str]) -> None:
    """Create missing leases; raise ``db.errors.DatabaseError``.

    Wait while the layout is being changed: a lease of the former layout would give shards to two leaders (RR-11).
    """
    async with database.transaction() as session:
        await session.execute("term.keep_layout")
        await session.execute("term.ensure", sinks)
