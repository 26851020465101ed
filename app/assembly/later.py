"""Services that begin when the first publisher has been answered.

Each of them opens a session and asks the database as it begins. A publisher who waited for the start would otherwise
wait for all of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from app.web.front import Front
from hub.publish import Publisher
from runtime.process import Service
from runtime.withdrawal import Withdrawal

__all__ = ["LaterService", "publishers_first"]

_AT_ONCE: Final = (Front, Publisher, Withdrawal)


def publishers_first(phases: Sequence[Sequence[Service]]) -> Sequence[Sequence[Service]]:
    """Return the phases. What no publisher needs begins after the first answer, if this process takes events."""
    for service in (service for phase in phases for service in phase):
        if isinstance(service, Front) and service.name == "http":
            first = service.publishers_first
            return [[one if isinstance(one, _AT_ONCE) else LaterService(one, first) for one in part] for part in phases]
    return phases


class LaterService:
    """A service that begins when ``first`` is over, a moment later. If it is stopped before, it does not begin."""

    def __init__(self, service: Service, first: Callable[[], Awaitable[None]]) -> None:
        self.name = service.name
        self._service = service
        self._first = first
        self._is_stopping = self._has_begun = False

    async def run(self) -> None:
        """Wait, then work until stopped."""
        await self._first()
        if not self._is_stopping:
            self._has_begun = True
            await self._service.run()

    def stop(self) -> None:
        """Stop the service, or do not begin it."""
        self._is_stopping = True
        if self._has_begun:
            self._service.stop()
