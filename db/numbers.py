"""Numbers: no sequence gives a number that was given before, wherever the database was moved.

Logical replication copies no sequences, a dump has those of its time, and a standby may be promoted that lacks the
last of them. So the first session on each server sets sequences forward that are behind, before it is used.
"""

from __future__ import annotations

from typing import Any, Final

import structlog

from db.bound import translated
from db.errors import Busy, Unavailable
from db.holders import holders_text
from db.statements import STATEMENTS

__all__ = ["Numbers"]

_log: Final = structlog.get_logger(__name__)


class Numbers:
    """The numbers of one process and database: it asks each server once."""

    def __init__(self) -> None:
        self._sure_at: str | int | None = None

    async def ensure(self, session: Any, server: str | None) -> None:
        """Set forward the sequences of this server. None: it does not tell which it is, so each generation asks.

        Raise :class:`Unavailable` where another session holds a sequence that is behind.
        """
        place = server or session.generation
        if place == self._sure_at:
            return
        try:
            with translated(sent=False):
                await _set_forward(session, server)
        except Busy as error:
            named = await _holders(session)
            raise Unavailable(f"sequences that are behind could not be set forward: {named or error}") from error
        self._sure_at = place


async def _set_forward(session: Any, server: str | None) -> None:
    if await session.fetchval(STATEMENTS["sequence.is_settable"]):
        for moved in await session.fetch(STATEMENTS["sequence.set_forward"], server):
            _log.warning("sequence_set_forward", **moved)


async def _holders(session: Any) -> str:
    with translated(sent=False):
        return holders_text(await session.fetch(STATEMENTS["holder.all"], 0.0))
