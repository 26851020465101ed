"""KnownDoors: the doors that were used recently, so that a request needs no query.

Names that exist are kept, and asked for, apart from names that do not. So a stranger who invents names delays no sender
whose door this process has served before.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from db.secret_box import SecretBoxError
from hub.inbound.door import InboundSource, is_door_name
from hub.inbound.doors import Doors

__all__ = ["FRESH_SECONDS", "KnownDoors"]

FRESH_SECONDS: Final = 3.0
"""How long a door counts without a new query."""
_NAMES_MAX: Final = 10_000
_QUESTIONS_AT_ONCE: Final = 4


class KnownDoors:
    """The doors of one process; bounded."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors
        self._known: dict[str, tuple[InboundSource, float]] = {}
        self._unknown: dict[str, float] = {}
        self._unreadable: dict[str, tuple[str, float]] = {}
        self._of_senders = asyncio.Semaphore(_QUESTIONS_AT_ONCE)
        self._of_strangers = asyncio.Semaphore(_QUESTIONS_AT_ONCE)

    async def find(self, name: str) -> InboundSource | None:
        """Return the door of this name; None: there is none. Raise ``db.errors.DatabaseError``, and ``SecretBoxError``
        if its secret cannot be read.
        """
        if not is_door_name(name):
            return None
        is_fresh, door = self._look(name)
        if is_fresh:
            return door
        async with self._of_senders if name in self._known else self._of_strangers:
            is_fresh, door = self._look(name)
            return door if is_fresh else await self._ask(name)

    def _look(self, name: str) -> tuple[bool, InboundSource | None]:
        """Return whether a name was asked for recently, and its door. Raise ``SecretBoxError`` again for one whose
        secret could not be read then.
        """
        why, until = self._unreadable.get(name, ("", 0.0))
        if until > time.monotonic():
            raise SecretBoxError(why)
        door, until = self._known.get(name, (None, self._unknown.get(name, 0.0)))
        return until > time.monotonic(), door

    def forget(self, name: str) -> None:
        """Ask for this door anew; other processes do so within three seconds."""
        self._known.pop(name, None)
        self._unknown.pop(name, None)
        self._unreadable.pop(name, None)

    async def _ask(self, name: str) -> InboundSource | None:
        asked_at = time.monotonic()
        until = asked_at + FRESH_SECONDS
        try:
            state = await self._doors.find(name)
        except SecretBoxError as error:
            self._unreadable[name] = str(error), until  # only doors that exist have secrets
            raise
        self._unreadable.pop(name, None)
        if state is None:
            self._known.pop(name, None)
            if len(self._unknown) >= _NAMES_MAX:
                self._unknown.clear()
            self._unknown[name] = until
            return None
        if len(self._known) >= _NAMES_MAX:
            self._known.clear()
        self._known[name] = (state.door, until)
        return state.door
