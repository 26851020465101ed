"""Observable: one part of the process tells others that something happened, without knowing them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec

__all__ = ["Observable"]

P = ParamSpec("P")


class Observable(Generic[P]):
    """A list of listeners. Call :meth:`notify` any number of times; without a listener it does nothing."""

    def __init__(self) -> None:
        self._listeners: list[Callable[P, object]] = []

    def connect(self, listener: Callable[P, object]) -> None:
        """Add a listener. It is called on the event loop and must not block."""
        self._listeners.append(listener)

    def notify(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call every listener, in the order in which they were connected."""
        for listener in self._listeners:
            listener(*args, **kwargs)
