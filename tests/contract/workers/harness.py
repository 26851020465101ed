"""What a class of worker provides for the suite: its work, and what became of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from tests.contract.workers.endings import Act

__all__ = ["GOOD", "Hands", "Harness", "Place", "Seen", "WorkerKind"]

GOOD = 5


class Seen(NamedTuple):
    """What became of the bad piece of work. ``reason``: as stored; None if the work is done."""

    state: str
    attempts: int
    reason: str | None
    is_delayed: bool


@dataclass(slots=True)
class Hands:
    """The handler of a test. It does the act for the bad piece of work, and counts runs of each sort."""

    act: Act
    good: list[Any] = field(default_factory=list)
    bad: int = 0

    def plain(self, work: Any, result: Any = None) -> Any:
        """Handle a piece of work in a thread or on the loop."""
        if work == "bad":
            self.bad += 1
            return self.act()
        self.good.append(work)
        return result

    async def coroutine(self, work: Any, result: Any = None) -> Any:
        """Handle a piece of work on the loop."""
        found = self.plain(work, result)
        if work == "bad" and inspect.iscoroutine(found) and found.cr_frame is not None:
            return await found
        return found


class Harness(Protocol):
    """A worker that runs, with one bad and five good pieces of work."""

    def stop(self) -> None:
        """Stop the worker softly."""

    async def ended(self) -> None:
        """Wait until the worker has ended."""

    async def lives(self) -> bool:
        """Return whether the worker does one more piece of work."""

    async def bad(self) -> Seen:
        """Return what became of the bad piece of work, or that it is ``held``."""


class Place(NamedTuple):
    """Where the work is: a pool of the SDK's driver, and the pool of ``hookwire work``."""

    pool: Any
    sdk_pool: Any


class WorkerKind(NamedTuple):
    """A class of worker. ``result``: what it makes of results: ``kept``, ``bytes`` or ``nothing``."""

    name: str
    result: str
    on_loop: bool
    open: Callable[[Place, Hands], AbstractAsyncContextManager[Harness]]
