"""A cancellation that must not be lost: asked wherever a loop outlives operating errors."""

from __future__ import annotations

import asyncio

__all__ = ["end_if_cancelled"]


def end_if_cancelled() -> None:
    """Raise CancelledError if this task was asked to end, whatever error has reached the caller instead.

    What fails at the very moment of a cancellation can take its place: a TaskGroup reports its tasks' errors and drops
    the cancellation (before Python 3.13), and so does a clean-up that raises. A loop that took only the error for the
    end of one round would lead on, its term over and nobody left to tell it.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
