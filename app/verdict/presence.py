"""Presence: a process reports the states of its sinks and sources to the database, for all processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Literal, NamedTuple

from db.errors import DatabaseError
from db.pool import Database
from runtime.periodic import Periodic

__all__ = ["Presence", "StateReport"]

_LOOK_SECONDS = 1.0
_BEAT_SECONDS = 5.0
_GONE_SECONDS = 20.0
_LEAVE_SECONDS = 2.0
_REASON_MAX = 300


class StateReport(NamedTuple):
    """The state of one sink or source. ``reason`` is the last error while it does not work, else ''."""

    kind: Literal["sink", "source"]
    name: str
    state: str
    reason: str


class Presence(Periodic):
    """Looks at the states once a second, and writes them when one changes, else every five seconds: one statement.

    A process that has written nothing for twenty seconds counts as gone. A process that stops takes its sinks along.
    Its sources stay as sources that nobody reads, until a process reads them or a person forgets them.
    ``on_first`` is called when the process has reported for the first time: an earlier verdict knew no relay of it.
    """

    name = "presence"
    expected: ClassVar = (DatabaseError,)

    def __init__(
        self, database: Database, process: str, reports: Callable[[], Sequence[StateReport]],
        on_first: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        super().__init__(_LOOK_SECONDS)
        self._database = database
        self._process = process
        self._reports = reports
        self._on_first = on_first
        self._written: Sequence[StateReport] = []
        self._write_again_at = 0.0

    async def once(self) -> None:
        """Write the reports if they are due."""
        reports = [report._replace(reason=report.reason[:_REASON_MAX]) for report in _unique(self._reports())]
        if reports == self._written and (not reports or time.monotonic() < self._write_again_at):
            return
        columns = [[report[place] for report in reports] for place in range(len(StateReport._fields))]
        await self._database.execute("verdict.report", self._process, *columns, _GONE_SECONDS)
        if self._write_again_at == 0.0:
            self._on_first()
        self._written, self._write_again_at = reports, time.monotonic() + _BEAT_SECONDS

    def failed(self, error: Exception) -> None:
        """Write again at the next look. The due poller tells that the database does not answer."""

    async def run(self) -> None:
        """Report until stopped, then say that it is gone."""
        await super().run()
        try:
            async with asyncio.timeout(_LEAVE_SECONDS):
                await self._database.execute("verdict.leave", self._process)
        except (DatabaseError, TimeoutError):
            pass  # they end by themselves


def _unique(reports: Iterable[StateReport]) -> list[StateReport]:
    """Return one report for each kind and name, one with trouble first: a queue and a Kafka topic may have one name."""
    found: dict[tuple[str, str], StateReport] = {}
    for report in reports:
        earlier = found.setdefault((report.kind, report.name), report)
        if report.reason and not earlier.reason:
            found[report.kind, report.name] = report
    return list(found.values())
