"""Arrival: wait until the database answers, for a service that starts before it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from db.bound import is_away
from db.errors import CannotServe, Unavailable
from db.pooling.pool_options import PoolOptions
from db.session import open_session

__all__ = ["wait_for_database"]

_PAUSE_SECONDS: Final = 0.5
_PAUSE_SECONDS_MAX: Final = 10.0


async def wait_for_database(options: PoolOptions, seconds: float, tell: Callable[[str, float], None]) -> None:
    """Return when the database answers. Each try in vain is told, with its reason and the pause before the next one.

    Raise :class:`~db.errors.Unavailable` after this time, and at once for a refusal that does not end by itself: a
    wrong password, no such database.
    """
    deadline, pause = time.monotonic() + seconds, _PAUSE_SECONDS
    while True:
        try:
            session = await open_session(options)
        except CannotServe:
            return  # It answers. The checks say what to do about a standby.
        except Unavailable as error:
            if not is_away(error) or time.monotonic() + pause > deadline:
                raise
            tell(str(error), pause)
        else:
            session.terminate()
            return
        await asyncio.sleep(pause)
        pause = min(pause * 2, _PAUSE_SECONDS_MAX)
