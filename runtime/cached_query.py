"""CachedQuery: share one answer of the database between callers that ask at nearly the same time (single flight)."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

__all__ = ["CachedQuery"]

T = TypeVar("T")


class CachedQuery(Generic[T]):
    """Asks ``ask`` at most once at a time; ``None`` means no answer. An answer is kept for ``fresh_seconds``, or for
    ``kept_times`` the time of its query if that is longer, but no longer than ``kept_seconds_max``.

    Where a snapshot keeps millions of dead rows, every query
    reads them all, and readers must not keep the database busy. A missing answer is kept for ``fresh_seconds`` only, so
    that a recovery shows at once.
    """

    def __init__(
        self, ask: Callable[[], Awaitable[T | None]], fresh_seconds: float, kept_times: float,
        kept_seconds_max: float = math.inf,
    ) -> None:  # fmt: skip
        self._ask = ask
        self._fresh_seconds = fresh_seconds
        self._kept_times = kept_times
        self._kept_seconds_max = kept_seconds_max
        self._asking = asyncio.Lock()
        self._answer: T | None = None
        self._fresh_until = 0.0
        self._is_expired = False

    def expire(self) -> None:
        """Ask again at the next call, however fresh the answer is. An answer that is awaited now is not kept either."""
        self._is_expired = True

    async def get(self) -> T | None:
        """Return the answer if it is fresh, else ask. Concurrent callers wait for the same answer."""
        async with self._asking:
            began = time.monotonic()
            if self._is_expired or began >= self._fresh_until:
                self._is_expired = False
                self._answer = await self._ask()
                ended = time.monotonic()
                kept_seconds = (
                    0.0 if self._answer is None else min(self._kept_times * (ended - began), self._kept_seconds_max)
                )
                self._fresh_until = ended + max(self._fresh_seconds, kept_seconds)
            return self._answer
