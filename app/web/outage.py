"""Silence: why the database did not answer, because what helps is not the same."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Final

from db.direct import connect_direct
from db.errors import Busy, DatabaseError, ServerTrouble, TooManyConnections
from db.pool import PoolOptions

__all__ = ["Silence", "greeting", "silence_of"]

_GREETING_SECONDS: Final = 2.0


class Silence(StrEnum):
    """``slow``: its server lets us in, and yet a statement was not answered in time. ``full``: it has no connection
    left for us. ``failing``: it answers, and cannot do what is asked: a full disk, a read-only server.
    """

    SLOW = "slow"
    FAILING = "failing"
    FULL = "full"
    UNREACHABLE = "unreachable"


async def silence_of(error: Exception, greet: Callable[[], Awaitable[Silence | None]]) -> Silence:
    """What a failed statement says about the database. If it took too long ``greet`` is asked, as :func:`greeting`."""
    if isinstance(error, TooManyConnections):
        return Silence.FULL
    if isinstance(error, ServerTrouble):
        return Silence.FAILING
    took_too_long = isinstance(error, TimeoutError | Busy) or isinstance(error.__cause__, TimeoutError)
    return (await greet() if took_too_long else None) or Silence.UNREACHABLE


async def greeting(options: PoolOptions) -> Silence:
    """Whether the server lets us in, within two seconds. The connection is a new one and none of the pool's: where
    statements hang, they hold all of those.
    """
    try:
        async with asyncio.timeout(_GREETING_SECONDS):
            connection = await connect_direct(options)
    except TooManyConnections:
        return Silence.FULL
    except (DatabaseError, TimeoutError):
        return Silence.UNREACHABLE
    await connection.aclose()
    return Silence.SLOW
