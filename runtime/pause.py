"""The pause of a service that waits for work, between two polls of the database too."""

from __future__ import annotations

import asyncio

__all__ = ["pause"]


async def pause(until: asyncio.Event, seconds: float | None) -> None:
    """Wait for so many seconds, or until the event is set by a stop or a notification; None: without an end."""
    try:
        async with asyncio.timeout(seconds):
            await until.wait()
    except TimeoutError:
        return
