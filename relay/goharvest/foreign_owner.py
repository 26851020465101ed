"""The owner of an outbox table: its triggers and policies run with the rights of the relay's role."""

from __future__ import annotations

from typing import Final

import structlog

from db.pool import Database

__all__ = ["tell_foreign_owner"]

_log = structlog.get_logger(__name__)
_HINT: Final = (
    "triggers and policies of the owner run as our role, which may do everything in the hub;"
    " if you trust the owner less, let the hub's role own the table, and grant INSERT on it"
)


async def tell_foreign_owner(database: Database, table: str) -> None:
    """Warn of a table whose owner could become the hub's owner by code on it. Raise DatabaseError."""
    owner = await database.fetchval("compat.foreign_owner", table)
    if owner is not None:
        _log.warning("outbox_of_another_role", outbox=table, owner=owner, hint=_HINT)
