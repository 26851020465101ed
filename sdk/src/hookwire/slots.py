"""Slots: the handlers that run now, each with its work. The ending of a handler is a value, never an exception."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

__all__ = ["WARNINGS", "Ending", "Slots", "ending_of", "ending_of_call"]

W = TypeVar("W")
_CANCELLED_SECONDS: Final = 5.0
WARNINGS: Final = {
    "handler_over": "the claim of %s is over, but its handler still runs in a slot",
    "handler_left": "the handler of %s does not end; its claim ends with its lease",
}
"""The warnings of a worker, by the event that :class:`Slots` reports."""


class Ending(NamedTuple):
    """The result or the exception of a handler. ``was_cancelled``: it ended because the worker had cancelled it."""

    result: Any = None
    error: BaseException | None = None
    was_cancelled: bool = False


async def ending_of(work: Awaitable[Any]) -> Ending:
    """Await the work and return its ending. It raises nothing, so that SystemExit does not end the event loop."""
    try:
        return Ending(await work)
    except BaseException as error:  # noqa: BLE001 - a user's code may raise anything
        return Ending(error=error)


def ending_of_call(call: Callable[..., Any], *arguments: Any) -> Ending:
    """Call a function and return its ending. It raises nothing, and a future takes each ending, also StopIteration."""
    try:
        return Ending(call(*arguments))
    except BaseException as error:  # noqa: BLE001 - a user's code may raise anything
        return Ending(error=error)


class Slots(Generic[W]):
    """Runs handlers in tasks of their own, and calls ``ended`` with the work and the ending of each.

    ``warn`` is called with an event of :data:`WARNINGS` and the work.

    A handler that is cancelled by its own code has failed. Only :meth:`cancel` and :meth:`drain` cancel it for the
    worker.
    """

    def __init__(self, ended: Callable[[W, Ending], None], warn: Callable[[str, W], None]) -> None:
        self._ended = ended
        self._warn = warn
        self._running: dict[asyncio.Task[Ending], W] = {}
        self._cancelled: set[asyncio.Task[Ending]] = set()
        self._named: set[asyncio.Task[Ending]] = set()

    def __len__(self) -> int:
        return len(self._running)

    @property
    def work(self) -> list[W]:
        """Return the work of the handlers that run."""
        return [*self._running.values()]

    def begin(self, work: W, handler: Awaitable[Any]) -> None:
        """Run a handler in a task."""
        task = asyncio.get_running_loop().create_task(ending_of(handler))
        self._running[task] = work
        task.add_done_callback(self._end)

    def cancel(self, over: Sequence[W]) -> None:
        """Cancel the handlers whose claim is over. Warn of each that still runs at the next call, once."""
        ids = {id(work) for work in over}
        for task, work in [*self._running.items()]:
            if id(work) not in ids:
                continue
            if task not in self._cancelled:
                self._cancel(task)
            elif task not in self._named:
                self._named.add(task)
                self._warn("handler_over", work)

    async def drain(self, grace_seconds: float) -> list[W]:
        """Wait for the handlers for the grace, then cancel them. Warn of, leave and return each that does not end."""
        if self._running:
            await asyncio.wait([*self._running], timeout=grace_seconds)
        for task in [*self._running]:
            self._cancel(task)
        if self._running:
            await asyncio.wait([*self._running], timeout=_CANCELLED_SECONDS)
        left = self.work
        for work in left:
            self._warn("handler_left", work)
        self._running.clear()
        return left

    def _cancel(self, task: asyncio.Task[Ending]) -> None:
        if task not in self._cancelled:
            self._cancelled.add(task)
            task.cancel()

    def _end(self, task: asyncio.Task[Ending]) -> None:
        work = self._running.pop(task, None)
        ending = Ending(error=asyncio.CancelledError()) if task.cancelled() else task.result()
        if task in self._cancelled:
            self._cancelled.discard(task)
            self._named.discard(task)
            if isinstance(ending.error, asyncio.CancelledError):
                ending = Ending(error=ending.error, was_cancelled=True)
        if work is not None:
            self._ended(work, ending)
