"""A heap of deadlines that cannot be cancelled: the caller checks each due item again (HB-04, PP-15)."""

from __future__ import annotations

import heapq
from itertools import count
from typing import Generic, TypeVar

__all__ = ["Deadlines"]

Item = TypeVar("Item")


class Deadlines(Generic[Item]):
    """A heap of items by time. When a due item turns out to have a later deadline, the caller adds it again.

    So a message that moves a deadline costs nothing here. The heap gets one push per item and interval.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Item]] = []
        self._numbers = count()

    def add(self, at: float, item: Item) -> None:
        """Add an item that is due at a time, in monotonic seconds."""
        heapq.heappush(self._heap, (at, next(self._numbers), item))

    def due(self, now: float) -> list[tuple[float, Item]]:
        """Remove and return the items that are due, the earliest first, each with the time of its :meth:`add`."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            at, _, item = heapq.heappop(self._heap)
            found.append((at, item))
        return found

    def first(self) -> float | None:
        """Return the earliest time, or None for an empty heap."""
        return self._heap[0][0] if self._heap else None

    def __len__(self) -> int:
        return len(self._heap)
