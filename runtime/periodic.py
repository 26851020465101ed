"""Periodic: a service that works in rounds with a pause between them."""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar

import structlog

from runtime.pause import pause

__all__ = ["Periodic", "later"]

_log = structlog.get_logger(__name__)
_LATER_SECONDS_MAX = 10.0


def later(interval_seconds: float) -> float:
    """Return when a first round begins that can wait: after half an interval to a whole one, at most 10 s.

    So a start serves its first requests sooner, and processes that start together work one after the other.
    """
    return random.uniform(0.5, 1.0) * min(interval_seconds, _LATER_SECONDS_MAX)  # noqa: S311 - not secret


class Periodic(ABC):
    """Run :meth:`once`, pause for ``interval_seconds``, and begin again until stopped.

    With an interval of None each round waits for a notification, also the first. A service that ``begins_later`` has
    work that can wait: its first round comes after :func:`later`, or at the first notification.

    A subclass sets ``name`` and writes :meth:`once`. An exception of a class in ``expected`` is an operating error: it
    is logged as the event ``failure``, and the next round follows. Any other exception ends the process.
    """

    name: str
    expected: ClassVar[tuple[type[Exception], ...]] = ()
    failure: ClassVar[str] = ""
    begins_later: ClassVar[bool] = False

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
        elif self.begins_later:
            await pause(self._notified, later(self._interval_seconds))
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

    async def passes(
        self, act: Callable[[], Awaitable[Mapping[str, Any] | None]], tell: Callable[[Mapping[str, int]], None]
    ) -> Counter[str]:
        """Repeat ``act`` until its counts are 0, or until stopped. Give each to ``tell``, and return their sums."""
        total: Counter[str] = Counter()
        while not self._is_stopping:
            row = await act()
            assert row is not None, "the function returns one row"
            done = {name: count for name, count in row.items() if count}
            if not done:
                break
            total.update(done)
            tell(done)
        return total

    async def batches(self, act: Callable[[], Awaitable[int]], size: int) -> int:
        """Repeat ``act`` until it handles fewer than ``size``, or until stopped. Return how many it has handled."""
        total = 0
        while not self._is_stopping:
            count = await act()
            total += count
            if count < size:
                break
        return total

    def failed(self, error: Exception) -> None:
        """Report an expected error of a round. A subclass without a ``failure`` raises it again."""
        if not self.failure:
            raise error
        _log.warning(self.failure, error=str(error))

    def pause_seconds(self) -> float | None:
        """Return how long to pause before the next round; None: until a notification."""
        return self._interval_seconds
