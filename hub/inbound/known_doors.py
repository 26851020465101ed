"""KnownDoors: the doors that were used recently, so that a request needs no query.

Names that exist are asked for apart from names that do not. So a stranger who invents names delays no sender.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from hub.inbound.door import InboundSource, is_door_name
from hub.inbound.doors import Doors

__all__ = ["FRESH_SECONDS", "KnownDoors"]

FRESH_SECONDS: Final = 3.0
"""How long a door counts without a new query."""
_KNOWN_MAX: Final = 10_000
_QUESTIONS_AT_ONCE: Final = 4
_UNKNOWN: Final = (None, 0.0)


class KnownDoors:
    """The doors of one process; bounded."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors
        self._known: dict[str, tuple[InboundSource | None, float]] = {}
        self._of_senders = asyncio.Semaphore(_QUESTIONS_AT_ONCE)
        self._of_strangers = asyncio.Semaphore(_QUESTIONS_AT_ONCE)

    async def find(self, name: str) -> InboundSource | None:
        """Return the door of this name; None: there is none. Raises ``db.errors.DatabaseError``."""
        door, until = self._known.get(name, _UNKNOWN)
        if until > time.monotonic():
            return door
        if not is_door_name(name):
            return None
        async with self._of_strangers if door is None else self._of_senders:
            door, until = self._known.get(name, _UNKNOWN)
            return door if until > time.monotonic() else await self._ask(name)

    def forget(self, name: str) -> None:
        """Ask for this door anew; other processes do so within three seconds."""
        self._known.pop(name, None)

    async def _ask(self, name: str) -> InboundSource | None:
        asked_at = time.monotonic()
        state = await self._doors.find(name)
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
        door = state.door if state is not None else None
        self._known[name] = (door, asked_at + FRESH_SECONDS)
        return door
