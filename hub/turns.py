"""Turns: few requests to subscribe use the database at once; the others wait, for a limited time (FX-07).

Requests for one callback host commit one after the other. Without turns, each request of a burst holds a connection of
the pool meanwhile. Then nothing else gets a connection, and most of the burst ends with 503.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hub.form import FormRefused

__all__ = ["Turns"]

_RETRY_SECONDS = 5


class Turns:
    """A queue: ``at_once`` requests have their turn at a time; each waits at most ``seconds_max`` for it.

    The HTTP server limits how many wait.
    """

    def __init__(self, at_once: int = 3, seconds_max: float = 30.0) -> None:
        self._slots = asyncio.Semaphore(at_once)
        self._seconds_max = seconds_max

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn and hold it. Raise ``FormRefused`` 503 where it does not come in time."""
        try:
            async with asyncio.timeout(self._seconds_max):
                await self._slots.acquire()
        except TimeoutError:
            text = "the hub has too many requests to subscribe at the moment; repeat this one later"
            raise FormRefused(503, "", text, retry_after_seconds=_RETRY_SECONDS) from None
        try:
            yield
        finally:
            self._slots.release()
