"""Topics: known by name, created by their first publish, unless a setting turns that off."""

from __future__ import annotations

from db.names import NamesInUse
from db.pool import Database

__all__ = ["Topics", "UnknownTopic"]


class UnknownTopic(Exception):
    """The topic does not exist and topics are not created by publishing to them."""


class Topics:
    """Admission of topic names. ``names`` is what the process remembers of them, for callers that create rows, too."""

    def __init__(self, database: Database, *, auto_create: bool) -> None:
        self.names = NamesInUse(database, "topic")
        self._auto_create = auto_create

    async def admit(self, name: str, key_id: str | None = None) -> None:
        """Make sure the topic has its row. ``key_id`` is the publisher's API key.

        Raises :class:`UnknownTopic`, ``db.names.TooManyNames``, ``db.errors.DatabaseError``.
        """
        # Outside every publishing transaction: a topic's row is shared by all its publishers.
        if self._auto_create:
            await self.names.ensure(name, key_id)
        elif not await self.names.is_known(name):
            raise UnknownTopic(name)
