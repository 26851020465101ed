"""A semaphore whose slots can be taken all at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["all_of"]


@asynccontextmanager
async def all_of(slots: asyncio.Semaphore, number: int) -> AsyncIterator[None]:
    """Hold all ``number`` slots of a semaphore, so that no other holder runs."""
    taken = 0
    try:
        while taken < number:
            await slots.acquire()
            taken += 1
        yield
    finally:
        for _ in range(taken):
            slots.release()
