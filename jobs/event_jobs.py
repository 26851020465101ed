"""Jobs from events: the send of the sink ``jobs``, by the rule of the event's topic.

The statement that deletes the outbox row enqueues the job, and it names the term under which the row was claimed. So
each event enqueues exactly one job, whatever is killed. Settings keep the rule for as long as events may wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import structlog

from db.pool import Database

__all__ = ["EventJobs", "JobTermOver"]

_log = structlog.get_logger(__name__)
_BYTES_MAX = 8 * 1024 * 1024  # of payload in one statement


class JobTermOver(Exception):
    """Another term rules; nothing was written."""


class EventJobs:
    """``on_added`` is called after jobs were enqueued."""

    def __init__(
        self, database: Database, incarnation: str, on_added: Callable[[], None], bytes_max: int = _BYTES_MAX
    ) -> None:
        self._database = database
        self._incarnation = incarnation
        self._on_added = on_added
        self._bytes_max = bytes_max

    async def enqueue(self, group: int, term: int, shards: Sequence[int], ids: Sequence[int]) -> Collection[int]:
        """Enqueue a job for each of these events; return the ids of the events that are done, lowest first.

        Raises :class:`JobTermOver`, ``db.errors.DatabaseError``.
        """
        row = await self._database.fetchrow(
            "event_job.enqueue", group, term, shards, ids, self._incarnation, self._bytes_max
        )
        if row is None or not row["leads"]:
            raise JobTermOver
        if row["jobs"] < row["events"]:
            _log.error("events_without_job_rule", events=row["events"], jobs=row["jobs"])
        if row["jobs"]:
            self._on_added()
        return set(row["ids"])
