"""The pause between two polls of the database, which services of every room use."""

from __future__ import annotations

import asyncio

__all__ = ["pause"]


async def pause(until: asyncio.Event, seconds: float) -> None:
    """Wait for so many seconds, or until the event is set by a stop or a notification."""
    try:
        async with asyncio.timeout(seconds):
            await until.wait()
    except TimeoutError:
        return
