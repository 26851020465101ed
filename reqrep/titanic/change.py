"""The wake-up of a store in this process: a request became claimable."""

from __future__ import annotations

import asyncio

__all__ = ["ChangeSignal"]


class ChangeSignal:
    """Wakes one waiter. A notification before the wait counts too, once."""

    def __init__(self) -> None:
        self._happened = asyncio.Event()

    def notify(self) -> None:
        """Let the present wait, or the next one, return."""
        self._happened.set()

    async def wait(self, timeout_seconds: float) -> None:
        """Return after a notification, or after the time."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._happened.wait()
        except TimeoutError:
            return
        self._happened.clear()
