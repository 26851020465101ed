"""Silence: why the database did not answer, because what helps is not the same."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Final

from db.direct import connect_direct
from db.errors import Busy, DatabaseError
from db.pool import PoolOptions

__all__ = ["Silence", "silence_of"]

_GREETING_SECONDS: Final = 2.0


class Silence(StrEnum):
    """``slow``: its server lets us in, and yet a statement was not answered in time."""

    SLOW = "slow"
    UNREACHABLE = "unreachable"


async def silence_of(error: Exception, options: PoolOptions) -> Silence:
    """What a failed statement says about the database. If it took too long, a new connection is asked for, for two
    seconds: not one of the pool's, because where statements hang, they hold all of those.
    """
    took_too_long = isinstance(error, TimeoutError | Busy) or isinstance(error.__cause__, TimeoutError)
    if not took_too_long:
        return Silence.UNREACHABLE
    try:
        async with asyncio.timeout(_GREETING_SECONDS):
            greeting = await connect_direct(options)
    except (DatabaseError, TimeoutError):
        return Silence.UNREACHABLE
    await greeting.aclose()
    return Silence.SLOW
