"""Long poll: fetch leased items for a client that waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeVar

from fastapi import Request

from runtime.pause import pause

__all__ = ["long_poll"]

_Item = TypeVar("_Item")
_REST_SECONDS_MIN: Final = 0.0125
_REST_SECONDS_MAX: Final = 0.2


async def long_poll(
    request: Request,
    leaving: asyncio.Event,
    fetch: Callable[[], Awaitable[Sequence[_Item]]],
    wait: Callable[[], AbstractAsyncContextManager[bool]],
) -> Sequence[_Item]:
    """Fetch, and after each wait fetch again, until there are items, the wait is over or the client has gone.

    ``wait`` gives False when the time is over, or when the process stops, which sets ``leaving``. Nothing is fetched
    for a client that has gone, because it would stay leased until its lease ends.
    """
    found, rest_seconds = await fetch(), 0.0
    while not found:
        async with wait() as is_woken:
            if not is_woken or await request.is_disconnected():
                break
            found = await fetch()
        if not found and not leaving.is_set():
            # Another client was faster. Or a filter or a limit withholds the items, so that each wait ends in vain.
            await pause(leaving, rest_seconds)
            rest_seconds = min(2 * rest_seconds or _REST_SECONDS_MIN, _REST_SECONDS_MAX)
    return found
