"""Names in use: topics, queues and services get a row at their first use, within the limits of the installation."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Final, Literal

from db.pool import Database

__all__ = ["NamesInUse", "TooManyNames"]

_KNOWN_MAX: Final = 100_000
_BETWEEN_COUNTS: Final = 100  # so many names are made before the rows are counted again
_STATEMENTS: Final = {
    "topic": ("topic.use", "topic.ensure", "topic.room"),
    "queue": ("queue.use", "queue.ensure", "queue.room"),
    "service": ("service.use", "service.ensure", "service.room"),
}


def _utc_today() -> int:
    """Return the day in UTC as a number: every publish asks for it."""
    return int(time.time()) // 86_400


class TooManyNames(Exception):
    """The name is new, and its caller, or all callers together, made as many names by use as the settings allow."""


class NamesInUse:
    """Names of one kind, remembered for a day, so that a process asks the database once a day for each.

    Every process counts for itself, and only now and then. The limits may be passed by 100 names a process.
    """

    def __init__(
        self, database: Database, kind: Literal["topic", "queue", "service"], today: Callable[[], int] = _utc_today
    ) -> None:
        self._database = database
        self._kind = kind
        self._use, self._ensure, self._count = _STATEMENTS[kind]
        self._today = today
        self._known: set[str] = set()
        self._known_on = today()
        self._room: Counter[str] = Counter()

    async def is_known(self, name: str) -> bool:
        """Return whether the name has a row, and note its use; raises ``db.errors.DatabaseError``."""
        if self._known_on != (today := self._today()) or len(self._known) >= _KNOWN_MAX:
            self._known.clear()
            self._known_on = today
        if name not in self._known:
            if not await self._database.fetchval(self._use, name):
                return False
            self._known.add(name)
        return True

    async def ensure(self, name: str, key_id: str | None = None) -> None:
        """Create the row of a name that is new; raises :class:`TooManyNames`, ``db.errors.DatabaseError``.

        ``key_id`` is the API key of the caller.
        """
        if not await self.is_known(name):
            await self._take_room(key_id or "")
            await self._database.execute(self._ensure, name, key_id or "")
            self._known.add(name)

    async def require_room(self, name: str, key_id: str | None = None) -> None:
        """Raise as :meth:`ensure`, for a caller that creates the row itself."""
        if not await self.is_known(name):
            await self._take_room(key_id or "")

    async def _take_room(self, key_id: str) -> None:
        if not self._room[key_id]:
            row = await self._database.fetchrow(self._count, key_id)
            assert row is not None, "the installation has its row"
            if row["room"] <= 0:
                whose, setting = ("of this API key", "_PER_KEY") if row["is_of_key"] else ("of all callers", "")
                raise TooManyNames(
                    f"The {self._kind} is new, and {row['most']} {self._kind}s {whose} were made by their use already. "
                    f"Make it with PUT /{self._kind}s/NAME, or raise HOOKWIRE_NAMES{setting}_MAX."
                )
            if len(self._room) > _KNOWN_MAX:
                self._room.clear()
            self._room[key_id] = min(row["room"], _BETWEEN_COUNTS)
        self._room[key_id] -= 1
