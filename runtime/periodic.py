"""Periodic: a service that works in rounds with a pause between them."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import ClassVar

import structlog

from runtime.pause import pause

__all__ = ["Periodic"]

_log = structlog.get_logger(__name__)


class Periodic(ABC):
    """Run :meth:`once`, pause for ``interval_seconds``, and begin again until stopped.

    With an interval of None each round waits for a notification, also the first.

    A subclass sets ``name`` and writes :meth:`once`. An exception of a class in ``expected`` is an operating error: it
    is logged as the event ``failure``, and the next round follows. Any other exception ends the process.
    """

    name: str
    expected: ClassVar[tuple[type[Exception], ...]] = ()
    failure: ClassVar[str] = ""

    def __init__(self, interval_seconds: float | None) -> None:
        self._interval_seconds = interval_seconds
        self._is_stopping = False
        self._notified = asyncio.Event()

    def notify(self) -> None:
        """Begin the next round at once; a round that runs now is followed by one more."""
        self._notified.set()

    def stop(self) -> None:
        """End after the current round."""
        self._is_stopping = True
        self._notified.set()

    async def run(self) -> None:
        """Work in rounds until stopped."""
        if self._interval_seconds is None:
            await self._notified.wait()
        while not self._is_stopping:
            self._notified.clear()
            try:
                await self.once()
            except self.expected as error:
                self.failed(error)
            await pause(self._notified, self.pause_seconds())

    @abstractmethod
    async def once(self) -> object:
        """Work for one round."""

    def failed(self, error: Exception) -> None:
        """Report an expected error of a round. A subclass without a ``failure`` raises it again."""
        if not self.failure:
            raise error
        _log.warning(self.failure, error=str(error))

    def pause_seconds(self) -> float | None:
        """Return how long to pause before the next round; None: until a notification."""
        return self._interval_seconds
