"""Withdrawal: the time between the announcement of a stop and the stop itself."""

from __future__ import annotations

import asyncio

__all__ = ["Withdrawal"]


class Withdrawal:
    """A service that is stopped before all others, in a phase of its own.

    Its stop sets ``announced``, by which readiness says so, and lasts ``seconds``. Meanwhile every other service goes
    on, so that a balancer that polls readiness sends its requests elsewhere before the listener is closed.
    """

    name = "withdrawal"

    def __init__(self, announced: asyncio.Event, seconds: float) -> None:
        self._announced = announced
        self._seconds = seconds

    def stop(self) -> None:
        """Announce the stop."""
        self._announced.set()

    async def run(self) -> None:
        """Return so many seconds after the announcement."""
        await self._announced.wait()
        await asyncio.sleep(self._seconds)
