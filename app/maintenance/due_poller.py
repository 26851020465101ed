"""Due poller: query the database once a second for due work of all services of the process (ADR 29).

::

    due.poll --> something is due for a service ------> its signal
        |    '-> an id was drawn since a relay polled -> that relay's signal
        '------> no answer ---------------------------> the service that can bring the database back

An idle process runs one query a second, regardless of its number of services. The poller finds work that no signal
announced: of another process, a due retry, a lost NOTIFY. Services poll by themselves only while they have
work, and once in some minutes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import ClassVar
from uuid import UUID

from db.errors import DatabaseError
from db.pool import Database
from runtime.periodic import Periodic

__all__ = ["DuePoller"]

_SHARE = 20  # A poll may be slow over many dead rows of an old snapshot. It takes at most a twentieth of the time.


class DuePoller(Periodic):
    """Poll once per ``interval_seconds`` and notify the services that have work.

    ``due`` maps a column of the statement ``due.poll`` to its signal. ``on_polled`` gets the last id drawn, its origin,
    and whether a hold is due for a probe. ``on_outage`` is called when the database does not answer. ``on_scope``
    gets whether a key is in order across topics.
    """

    name = "due poller"
    expected: ClassVar = (DatabaseError,)
    failure = "due_poll_failed"

    def __init__(
        self,
        database: Database,
        due: Mapping[str, Callable[[], None]],
        on_polled: Callable[[int, UUID, bool], None],
        on_outage: Callable[[], None],
        on_scope: Callable[[bool], None] = lambda _: None,
        interval_seconds: float = 1.0,
    ) -> None:
        super().__init__(interval_seconds)
        self._pause_seconds_min = interval_seconds
        self._database = database
        self._due = due
        self._on_polled = on_polled
        self._on_outage = on_outage
        self._on_scope = on_scope
        self._took_seconds = 0.0
        self._has_polled = False

    async def once(self) -> None:
        """Poll and measure how long it took. The first time it waits among all that begins, which tells nothing."""
        began = time.monotonic()
        self._took_seconds = 0.0
        await self.poll()
        if self._has_polled:
            self._took_seconds = time.monotonic() - began
        self._has_polled = True

    async def poll(self) -> None:
        """Ask once and notify; raise ``db.errors.DatabaseError``."""
        row = await self._database.fetchrow("due.poll")
        assert row is not None, "a sequence has one row"
        self._on_polled(row["last_id"], row["origin"], row["holds"])
        self._on_scope(row["orders_across_topics"])
        for column, notify in self._due.items():
            if row[column]:
                notify()

    def failed(self, error: Exception) -> None:
        """Report that the database does not answer."""
        super().failed(error)
        self._on_outage()

    def pause_seconds(self) -> float:
        """Return the interval, or longer where a poll is slow."""
        return max(self._pause_seconds_min, _SHARE * self._took_seconds)
