"""Ordered deadlines without cancellation: the caller re-checks an item when it comes out (HB-04, PP-15)."""

from __future__ import annotations

import heapq
from itertools import count
from typing import Generic, TypeVar

__all__ = ["Deadlines"]

Item = TypeVar("Item")


class Deadlines(Generic[Item]):
    """A heap of items by time. An item whose true deadline moved later is added again by the caller.

    So refreshing a deadline costs nothing on the way of a message; it costs one push per interval.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Item]] = []
        self._numbers = count()

    def add(self, at: float, item: Item) -> None:
        """Let the item come out at a time, in monotonic seconds."""
        heapq.heappush(self._heap, (at, next(self._numbers), item))

    def due(self, now: float) -> list[tuple[float, Item]]:
        """Remove and return the items whose time has come, earliest first, each with the time it was added for."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            at, _, item = heapq.heappop(self._heap)
            found.append((at, item))
        return found

    def first(self) -> float | None:
        """Return the earliest time, or None when nothing waits."""
        return self._heap[0][0] if self._heap else None

    def __len__(self) -> int:
        return len(self._heap)
