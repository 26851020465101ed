"""Leases: one row for each group of a sink in the present layout, made by whoever stands for them first."""

from __future__ import annotations

from collections.abc import Sequence

from db.pool import Database

__all__ = ["ensure_leases"]


async def ensure_leases(database: Database, sinks: Sequence[str]) -> None:
    """Make those that are missing; raises ``db.errors.DatabaseError``.

    While the layout is being changed it waits: a lease of the layout before would give shards to two leaders (RR-11).
    """
    async with database.transaction() as session:
        await session.execute("term.keep_layout")
        await session.execute("term.ensure", sinks)
