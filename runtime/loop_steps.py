"""LoopSteps: callbacks of which one runs in each step of the event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

__all__ = ["LoopSteps"]


class LoopSteps:
    """Callbacks in the order of their arrival. Between two of them the loop serves everything else that is ready."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_taken = False  # the turn of the present step

    def take(self, callback: Callable[[], None]) -> None:
        """Run this callback: at once if the turn is free, else in a later step of the running loop."""
        if self._is_taken:
            self._waiting.append(callback)
        else:
            self._is_taken = True
            asyncio.get_running_loop().call_soon(self._next)
            callback()

    def _next(self) -> None:
        self._is_taken = bool(self._waiting)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next)
            self._waiting.popleft()()
