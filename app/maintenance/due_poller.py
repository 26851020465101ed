"""Lookout: asks once a second, for all services of the process, whether there is something to do.

::

    lookout.look --> something is due for a service ----> its bell
        |        '-> an id was drawn since a relay was done --> that relay's bell
        '----------> no answer --> whoever can bring the database back

So an idle process asks one question a second, however many services it has, and what nobody uses costs nothing. It is
what finds whatever no bell was rung for: what another process has left, a retry whose time has come, a NOTIFY that was
lost (RO-09). Services poll by themselves only while they have work, and now and then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

import structlog

from db.errors import DatabaseError
from db.pool import Database
from runtime.pause import pause

__all__ = ["Lookout"]

_log = structlog.get_logger(__name__)


class Lookout:
    """``bells``: by the column of ``lookout.look`` that they are rung for; ``on_drawn`` is told the last id drawn and
    whether a hold is to be probed; ``on_silence``: the database does not answer; ``on_scope`` is told whether a key is
    kept in order across topics."""

    name = "lookout"

    def __init__(
        self,
        database: Database,
        bells: Mapping[str, Callable[[], None]],
        on_drawn: Callable[[int, bool], None],
        on_silence: Callable[[], None],
        on_scope: Callable[[bool], None] = lambda _: None,
        interval_seconds: float = 1.0,
    ) -> None:
        self._database = database
        self._bells = bells
        self._on_drawn = on_drawn
        self._on_silence = on_silence
        self._on_scope = on_scope
        self._interval_seconds = interval_seconds
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """End after the current look."""
        self._stopping.set()

    async def run(self) -> None:
        """Look again and again until stopped."""
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                await self.look()
            except DatabaseError as error:
                _log.warning("lookout_blind", error=str(error))
                self._on_silence()
                began = time.monotonic()
            # A look over many dead rows, which somebody's old snapshot keeps, takes a twentieth of the time at most.
            await pause(self._stopping, max(self._interval_seconds, 20 * (time.monotonic() - began)))

    async def look(self) -> None:
        """Look once and ring where something is due; raises ``db.errors.DatabaseError``."""
        row = await self._database.fetchrow("lookout.look")
        assert row is not None, "a sequence has one row"
        self._on_drawn(row["last_id"], row["holds"])
        self._on_scope(row["orders_across_topics"])
        for column, ring in self._bells.items():
            if row[column]:
                ring()
