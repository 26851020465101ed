"""A cancellation that must not be lost, nor taken for one that it is not: for loops that outlive operating errors."""

from __future__ import annotations

import asyncio
import sys
from types import TracebackType

from typing_extensions import override

__all__ = ["TaskGroup", "end_if_cancelled"]


def end_if_cancelled() -> None:
    """Raise CancelledError if this task was asked to end, whatever error has reached the caller instead.

    What fails at the very moment of a cancellation can take its place: a TaskGroup reports its tasks' errors and drops
    the cancellation (before Python 3.13), and so does a clean-up that raises. A loop that took only the error for the
    end of one round would lead on, its term over and nobody left to tell it.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


class TaskGroup(asyncio.TaskGroup):
    """A TaskGroup that takes back every cancellation which it asked for itself.

    Before Python 3.13 (CPython issue 116720) it forgets to when a task fails while the group is being left, and the
    task that left it counts as cancelled ever after: :func:`end_if_cancelled` would end a relay that nobody stopped.
    """

    # The library's own; nothing public tells its request from somebody else's.
    _parent_task: asyncio.Task[object]
    _parent_cancel_requested: bool

    @override
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        taken_back = self._parent_cancel_requested
        try:
            await super().__aexit__(kind, error, traceback)
        finally:
            if sys.version_info < (3, 13) and self._parent_cancel_requested and not taken_back:
                self._parent_task.uncancel()
