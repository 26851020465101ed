"""The tests' one wait: for a condition, with a deadline, never for a time."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable

WAIT_SECONDS = 60.0


async def until(
    condition: Callable[[], object] | Callable[[], Awaitable[object]], seconds: float = WAIT_SECONDS
) -> None:
    """Wait until a condition, plain or awaitable, is true. Raises TimeoutError at the deadline."""
    async with asyncio.timeout(seconds):
        while True:
            found = condition()
            if await found if inspect.isawaitable(found) else found:
                return
            await asyncio.sleep(0.01)
