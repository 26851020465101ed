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
        self._running: dict[int, W] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._cancelled: set[int] = set()
        self._named: set[int] = set()

    def __len__(self) -> int:
        return len(self._running)

    @property
    def work(self) -> list[W]:
        """Return the work of the handlers that run."""
        return [*self._running.values()]

    def begin(self, work: W, handler: Callable[[W], Awaitable[Any]]) -> None:
        """Run a handler in a task."""
        self._running[id(work)] = work
        task = asyncio.get_running_loop().create_task(self._run(work, handler))
        if not task.done():  # an eager task may be
            self._tasks[id(work)] = task

    async def _run(self, work: W, handler: Callable[[W], Awaitable[Any]]) -> None:
        """Run a handler. Its ending is no callback of its task: that would cost as much as the rest."""
        try:
            ending = Ending(await handler(work))
        except GeneratorExit:  # the event loop is gone
            raise
        except BaseException as error:  # noqa: BLE001 - a user's code may raise anything
            ending = Ending(error=error)
        self._end(work, ending)

    def cancel(self, over: Sequence[W]) -> None:
        """Cancel the handlers whose claim is over. Warn of each that still runs at the next call, once."""
        for work in over:
            number = id(work)
            if number not in self._running:
                continue
            if number not in self._cancelled:
                self._cancel(work)
            elif number not in self._named:
                self._named.add(number)
                self._warn("handler_over", work)

    async def drain(self, grace_seconds: float) -> list[W]:
        """Wait for the handlers for the grace, then cancel them. Warn of, leave and return each that does not end."""
        if self._tasks:
            await asyncio.wait([*self._tasks.values()], timeout=grace_seconds)
        for work in self.work:
            self._cancel(work)
        if self._tasks:
            await asyncio.wait([*self._tasks.values()], timeout=_CANCELLED_SECONDS)
        left = self.work
        for work in left:
            self._warn("handler_left", work)
        self._running.clear()
        self._tasks.clear()
        return left

    def _cancel(self, work: W) -> None:
        if id(work) not in self._cancelled:
            self._cancelled.add(id(work))
            task = self._tasks[id(work)]
            task.cancel()
            task.add_done_callback(lambda _: self._end(work, Ending(error=asyncio.CancelledError())))  # it never began

    def _end(self, work: W, ending: Ending) -> None:
        number = id(work)
        was_running = self._running.pop(number, None) is not None
        self._tasks.pop(number, None)
        if number in self._cancelled:
            self._cancelled.discard(number)
            self._named.discard(number)
            if isinstance(ending.error, asyncio.CancelledError):
                ending = Ending(error=ending.error, was_cancelled=True)
        if was_running:
            self._ended(work, ending)
