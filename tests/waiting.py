"""The waits of all tests: for a condition, with a deadline, never for a time.

A test may say how long a fault or a pause lasts, where that length is its subject: ``lasts`` and ``block_for``. No test
calls ``sleep`` with a number above 0 (tests/project/test_sleeps.py).
"""

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

WAIT_SECONDS = 60.0
_POLL_SECONDS = 0.01


async def until(
    condition: Callable[[], Any], seconds: float = WAIT_SECONDS, poll_seconds: float = _POLL_SECONDS
) -> Any:
    """Wait until a condition, plain or awaitable, is true; return its value. Raises TimeoutError at the deadline."""
    async with asyncio.timeout(seconds):
        while True:
            found = condition()
            if inspect.isawaitable(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(poll_seconds)


def block_until(condition: Callable[[], Any], seconds: float = WAIT_SECONDS) -> Any:
    """Wait as ``until`` does, in a test or thread without an event loop."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError("the condition did not come true")
        time.sleep(_POLL_SECONDS)
    return found


async def poll() -> None:
    """Wait a moment before a loop with a deadline of its own looks again."""
    await asyncio.sleep(_POLL_SECONDS)


def block_poll() -> None:
    """Wait as ``poll`` does, without an event loop."""
    time.sleep(_POLL_SECONDS)


async def lasts(seconds: float) -> None:
    """Let a fault, an outage or the pace of a load last so long."""
    await asyncio.sleep(seconds)


def block_for(seconds: float) -> None:
    """Let a fault last so long, without an event loop."""
    time.sleep(seconds)
