"""A signal within one process: a stored request became claimable."""

from __future__ import annotations

import asyncio

__all__ = ["ChangeSignal"]


class ChangeSignal:
    """Wakes one waiter. Notifications before the wait end that wait at once."""

    def __init__(self) -> None:
        self._happened = asyncio.Event()

    def notify(self) -> None:
        """End the present wait, or the next one."""
        self._happened.set()

    async def wait(self, timeout_seconds: float) -> None:
        """Return after a notification, or after the time."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._happened.wait()
        except TimeoutError:
            return
        self._happened.clear()
