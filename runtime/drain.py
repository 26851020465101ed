"""Drain: end running tasks softly."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

__all__ = ["finish_or_cancel"]


async def finish_or_cancel(running: Collection[asyncio.Task[None]], grace_seconds: float) -> None:
    """Wait until the tasks end, for at most the grace; cancel the rest and wait for their end.

    ``running`` is a live collection: a task leaves it when it ends, and may join it during the grace.
    """
    if running:
        await asyncio.wait([*running], timeout=grace_seconds)
    for task in [*running]:
        task.cancel()
    if running:
        await asyncio.wait([*running])
