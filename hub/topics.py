"""Topics: known by name, created by their first publish, unless a setting turns that off."""

from __future__ import annotations

from db.pool import Database

__all__ = ["Topics", "UnknownTopic"]

_KNOWN_MAX = 100_000


class UnknownTopic(Exception):
    """The topic does not exist and topics are not created by publishing to them."""


class Topics:
    """Admission of topic names, cached in memory so that a process asks the database once per topic."""

    def __init__(self, database: Database, *, auto_create: bool) -> None:
        self._database = database
        self._auto_create = auto_create
        self._known: set[str] = set()

    async def admit(self, name: str) -> None:
        """Make sure the topic has its row; raises :class:`UnknownTopic`, ``db.errors.DatabaseError``."""
        if name in self._known:
            return
        if self._auto_create:
            # Outside every publishing transaction: a topic's row is shared by all its publishers (RR-04).
            await self._database.execute("topic.ensure", "default", [name])
        elif not await self._database.fetch("topic.known", "default", name):
            raise UnknownTopic(name)
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
        self._known.add(name)
