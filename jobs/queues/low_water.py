"""Low water: the id from which a claim reads a queue's index (JS-02).

While an old snapshot keeps dead index entries alive, a claim from the lowest id reads all of them. So each claim begins
after the last id of the previous claim. Every ``reset_seconds`` a claim begins at 0 again, because a transaction may
commit a lower id late and a rejected message returns to its place.
"""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["LowWater"]

_QUEUES_MAX = 10_000


class LowWater:
    """The start of the next claim of each queue. ``clock`` returns monotonic seconds."""

    def __init__(self, reset_seconds: float = 0.5, clock: Callable[[], float] = time.monotonic) -> None:
        self._reset_seconds = reset_seconds
        self._clock = clock
        self._marks: dict[str, tuple[int, float]] = {}

    def start(self, queue: str) -> int:
        """Return the id after which the next claim begins."""
        mark, until = self._marks.get(queue, (0, 0.0))
        if self._clock() < until:
            return mark
        if len(self._marks) >= _QUEUES_MAX:
            self._marks.clear()
        self._marks[queue] = (0, self._clock() + self._reset_seconds)
        return 0

    def claimed(self, queue: str, last_id: int) -> None:
        """Remember that the last claim ended with this id."""
        mark, until = self._marks.get(queue, (0, 0.0))
        self._marks[queue] = (max(mark, last_id), until)

    def forget(self, queue: str) -> None:
        """Begin the next claim at 0, because no message was found or a message was returned."""
        self._marks.pop(queue, None)
