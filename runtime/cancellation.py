"""Keep a cancellation from being lost in loops that outlive operating errors."""

from __future__ import annotations

import asyncio
import sys
from types import TracebackType

from typing_extensions import override

__all__ = ["TaskGroup", "end_if_cancelled"]


def end_if_cancelled() -> None:
    """Raise CancelledError if this task was asked to end, even if another error has reached the caller instead.

    An error at the moment of a cancellation can replace it. A TaskGroup reports its tasks' errors and drops the
    cancellation (before Python 3.13), and so does a clean-up that raises. A loop that handles only the error would go
    on for ever, with its term over. Before Python 3.12, ``asyncio.wait_for`` loses a cancellation that comes together
    with its result. aio-pika uses it for each answer of a broker, so call this before a wait without a limit.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


class TaskGroup(asyncio.TaskGroup):
    """A TaskGroup that undoes each cancellation of its own task that it has requested itself.

    Before Python 3.13 (CPython issue 116720) the library does not undo it when a task fails during the exit of the
    group. Then the task stays cancelled, and :func:`end_if_cancelled` would end a relay that was not stopped.
    """

    # Private attributes of the library. No public one distinguishes the group's request from another cancellation.
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
