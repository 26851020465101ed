"""Long poll: fetch leased items for a client that waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from fastapi import Request

from runtime.pause import pause

__all__ = ["long_poll"]

_Item = TypeVar("_Item")
_FIRST_PAUSE_SECONDS: Final = 0.01
_PAUSE_SECONDS_MAX: Final = 0.2


async def long_poll(
    request: Request,
    leaving: asyncio.Event,
    fetch: Callable[[], Awaitable[Sequence[_Item]]],
    wait: Callable[[], Awaitable[bool]],
) -> Sequence[_Item]:
    """Fetch, and after each wait fetch again, until there are items, the wait is over or the client has gone.

    ``wait`` returns False when the time is over, or when the process stops, which sets ``leaving``. Nothing is fetched
    for a client that has gone, because it would stay leased until its lease ends.
    """
    found, pause_seconds = await fetch(), _FIRST_PAUSE_SECONDS
    while not found:
        if not await wait() or await request.is_disconnected():
            break
        found = await fetch()
        if not found and not leaving.is_set():
            # Another reader was faster, or a filter or a limit withholds the items: query less and less often.
            await pause(leaving, pause_seconds)
            pause_seconds = min(2 * pause_seconds, _PAUSE_SECONDS_MAX)
    return found
