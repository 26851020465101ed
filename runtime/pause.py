"""The pause between two looks at the database; every room above has services that make one."""

from __future__ import annotations

import asyncio

__all__ = ["pause"]


async def pause(until: asyncio.Event, seconds: float) -> None:
    """Return after so many seconds, or as soon as the event is set: a stop, or a notification."""
    try:
        async with asyncio.timeout(seconds):
            await until.wait()
    except TimeoutError:
        return
