"""Seen: which events a receiver has taken, so that a repeat is not taken twice."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Literal

__all__ = ["Seen"]


class Seen:
    """The last events of this process; the oldest are forgotten. An event is noted only after its handler succeeded.

    ``keep`` is how many are remembered. A restart forgets all: :class:`DatabaseSeen` does not.
    """

    def __init__(self, keep: int = 100_000) -> None:
        self._keep = keep
        self._done: OrderedDict[Hashable, None] = OrderedDict()
        self._running: set[Hashable] = set()
        self._lock = threading.Lock()

    def begin(self, key: Hashable, *, again: bool = False) -> Literal["new", "done", "running"]:
        """Begin an event. ``again``: it is taken although it is done, as a replay that was asked for."""
        with self._lock:
            if key in self._running:
                return "running"
            if key in self._done and not again:
                self._done.move_to_end(key)
                return "done"
            self._running.add(key)
            return "new"

    def end(self, key: Hashable, *, done: bool) -> None:
        """End an event that was begun. ``done``: note that it succeeded."""
        with self._lock:
            self._running.discard(key)
            if done:
                self._done[key] = None
                if len(self._done) > self._keep:
                    self._done.popitem(last=False)
