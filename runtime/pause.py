"""A pause that ends early when an event is set. A service waits in it for work or for its next poll."""

from __future__ import annotations

import asyncio

__all__ = ["pause"]


async def pause(until: asyncio.Event, seconds: float | None) -> None:
    """Wait for so many seconds, or until a stop or a notification sets the event; None: without a time limit."""
    if seconds is None:
        await until.wait()
        return
    try:
        async with asyncio.timeout(seconds):
            await until.wait()
    except TimeoutError:
        return
