"""Holders of locks: who keeps a statement of ours waiting, whatever kind of session or transaction that is.

During a wait the server knows its blockers. After a wait in vain nobody waits any more. Then the open transactions that
hold locks of our tables, or our advisory locks, are named, oldest first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import structlog

from db.errors import DatabaseError

__all__ = ["Holders", "holders_text", "naming_blockers"]

_log: Final = structlog.get_logger(__name__)
_LOOK_SECONDS: Final = 10.0
_HELD_SECONDS_MIN: Final = 0.2  # younger transactions are those of ordinary work
_ASK_SECONDS: Final = 2.0
_Ask = Callable[[str, float], Awaitable[Sequence[Mapping[str, Any]]]]


class Holders:
    """Logs who holds locks after a statement of this process waited in vain: one look in ten seconds."""

    def __init__(self) -> None:
        self._looked_at = float("-inf")
        self._looking: asyncio.Task[None] | None = None

    def look(self, ask: _Ask) -> None:
        """Look in the background. ``ask`` runs a named statement with one argument, and returns its rows."""
        if time.monotonic() - self._looked_at >= _LOOK_SECONDS:
            self._looked_at = time.monotonic()
            self._looking = asyncio.create_task(self._look(ask))

    async def _look(self, ask: _Ask) -> None:
        with suppress(DatabaseError, TimeoutError):
            async with asyncio.timeout(_ASK_SECONDS):
                rows = await ask("holder.all", _HELD_SECONDS_MIN)
            for row in rows:
                _log.warning("lock_held", holder=row["holder"], seconds=row["seconds"], ended_by=row["ended_by"])


def holders_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a clause that names the holders and how each one is ended; empty without any."""
    named = "; ".join(f"{row['holder']}, ended by {row['ended_by']}" for row in rows)
    return f"held by {named}" if named else ""


@asynccontextmanager
async def naming_blockers(
    pid: int, ask: Callable[[str, int], Any], tell: Callable[[str], None], seconds: float = 5.0
) -> AsyncIterator[None]:
    """While the block runs, tell every few seconds who blocks the server process ``pid``, if anybody does.

    ``ask`` runs a named statement with one argument on another connection and returns its rows.
    """

    async def watch() -> None:
        while True:
            await asyncio.sleep(seconds)
            with suppress(DatabaseError):
                if named := holders_text(await ask("holder.of", pid)):
                    tell(named)

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
