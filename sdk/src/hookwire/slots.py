"""Slots: the handlers that run now, each with its work. The ending of a handler is a value, never an exception."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
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


@dataclass(eq=False, slots=True)
class _Slot(Generic[W]):
    """A handler that runs. ``is_named``: a warning was given that its claim is over."""

    work: W
    task: asyncio.Task[None] | None = None
    is_cancelled: bool = False
    is_named: bool = False


class Slots(Generic[W]):
    """Runs handlers in tasks of their own, and calls ``ended`` with the work and the ending of each.

    ``warn`` is called with an event of :data:`WARNINGS` and the work.

    A handler that is cancelled by its own code has failed. Only :meth:`cancel` and :meth:`drain` cancel it for the
    worker. ``ended`` is called in the handler's own task, because a callback of each task costs more than the task.
    """

    def __init__(self, ended: Callable[[W, Ending], None], warn: Callable[[str, W], None]) -> None:
        self._ended = ended
        self._warn = warn
        self._running: dict[_Slot[W], None] = {}

    def __len__(self) -> int:
        return len(self._running)

    @property
    def work(self) -> list[W]:
        """Return the work of the handlers that run."""
        return [slot.work for slot in self._running]

    def begin(self, work: W, handler: Callable[[W], Awaitable[Any]]) -> None:
        """Run a handler for the work in a task."""
        slot = _Slot(work)
        self._running[slot] = None
        slot.task = asyncio.get_running_loop().create_task(self._run(slot, handler))

    def cancel(self, over: Sequence[W]) -> None:
        """Cancel the handlers whose claim is over. Warn of each that still runs at the next call, once."""
        self._end_unbegun()
        ids = {id(work) for work in over}
        for slot in [*self._running]:
            if id(slot.work) not in ids:
                continue
            if not slot.is_cancelled:
                _cancel(slot)
            elif not slot.is_named:
                slot.is_named = True
                self._warn("handler_over", slot.work)

    async def drain(self, grace_seconds: float) -> list[W]:
        """Wait for the handlers for the grace, then cancel them. Warn of, leave and return each that does not end."""
        await self._wait(grace_seconds)
        for slot in self._running:
            _cancel(slot)
        await self._wait(_CANCELLED_SECONDS)
        left = self.work
        for work in left:
            self._warn("handler_left", work)
        self._running.clear()
        return left

    async def _wait(self, seconds: float) -> None:
        if tasks := [slot.task for slot in self._running if slot.task is not None]:
            await asyncio.wait(tasks, timeout=seconds)
        self._end_unbegun()

    async def _run(self, slot: _Slot[W], handler: Callable[[W], Awaitable[Any]]) -> None:
        try:
            ending = Ending(await handler(slot.work))
        except BaseException as error:  # noqa: BLE001 - a user's code may raise anything
            ending = Ending(error=error)
        self._end(slot, ending)

    def _end_unbegun(self) -> None:
        """End the handlers whose task was cancelled before its first step, so that it never ran."""
        for slot in [*self._running]:
            if slot.task is not None and slot.task.done():
                self._end(slot, Ending(error=asyncio.CancelledError()))

    def _end(self, slot: _Slot[W], ending: Ending) -> None:
        if slot not in self._running:  # it was left, and its coroutine may be closed at any time
            return
        del self._running[slot]
        if slot.is_cancelled and isinstance(ending.error, asyncio.CancelledError):
            ending = Ending(error=ending.error, was_cancelled=True)
        self._ended(slot.work, ending)


def _cancel(slot: _Slot[Any]) -> None:
    if slot.task is not None and not slot.is_cancelled:
        slot.is_cancelled = True
        slot.task.cancel()
