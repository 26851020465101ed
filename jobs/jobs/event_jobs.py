"""Jobs from events: the sink ``jobs`` enqueues a job for each event, by the rule of the event's topic.

One statement deletes the outbox row and enqueues the job, and it checks the term of the leader. So each event enqueues
exactly one job, even if a process is killed at any point. The topic keeps its rule while events may wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import structlog

from db.pool import Database

__all__ = ["EventJobs", "JobTermOver"]

_log = structlog.get_logger(__name__)
_BYTES_MAX = 8 * 1024 * 1024  # of payload in one statement


class JobTermOver(Exception):
    """Another leader holds a newer term; nothing was written."""


class EventJobs:
    """Enqueue jobs for events. ``on_added`` is called after jobs were enqueued."""

    def __init__(
        self, database: Database, incarnation: str, on_added: Callable[[], None], bytes_max: int = _BYTES_MAX
    ) -> None:
        self._database = database
        self._incarnation = incarnation
        self._on_added = on_added
        self._bytes_max = bytes_max

    async def enqueue(self, group: int, term: int, shards: Sequence[int], ids: Sequence[int]) -> Collection[int]:
        """Enqueue a job for each of the lowest events, up to the limit of bytes; return the ids of these events.

        Raise :class:`JobTermOver` if the term is over, and ``db.errors.DatabaseError``.
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
