"""Outage: why the database did not answer. Each reason has a cure of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Final

from db.direct import connect_direct
from db.errors import Busy, CannotServe, DatabaseError, ServerTrouble, TooManyConnections
from db.pool import PoolOptions

__all__ = ["Outage", "classify_outage", "probe_connection"]

_PROBE_SECONDS: Final = 2.0


class Outage(StrEnum):
    """The reasons. ``slow``: its server accepts connections, but did not answer a statement in time. ``full``: it has
    no free connection. ``failing``: it answers, but cannot run the statement: a full disk, a read-only server.
    """

    SLOW = "slow"
    FAILING = "failing"
    FULL = "full"
    UNREACHABLE = "unreachable"


async def classify_outage(error: Exception, probe: Callable[[], Awaitable[Outage | None]]) -> Outage:
    """Classify a failed statement. After a timeout call ``probe``, such as :func:`probe_connection`."""
    if isinstance(error, TooManyConnections):
        return Outage.FULL
    if isinstance(error, ServerTrouble | CannotServe):
        return Outage.FAILING
    took_too_long = isinstance(error, TimeoutError | Busy) or isinstance(error.__cause__, TimeoutError)
    return (await probe() if took_too_long else None) or Outage.UNREACHABLE


async def probe_connection(options: PoolOptions) -> Outage:
    """Return whether the server accepts a connection within two seconds.

    The connection is a new one: where statements hang, they hold all connections of the pool.
    """
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            connection = await connect_direct(options)
    except TooManyConnections:
        return Outage.FULL
    except CannotServe:
        return Outage.FAILING
    except (DatabaseError, TimeoutError):
        return Outage.UNREACHABLE
    await connection.aclose()
    return Outage.SLOW
