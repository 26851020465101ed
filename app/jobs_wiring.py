"""Jobs wiring: the parts of the room ``jobs`` in one process, put together for ``app.wiring``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from prometheus_client import CollectorRegistry

from app.alarm import alarm_of
from app.settings.settings import Settings
from app.web.api.context import JobsContext
from db.pool import Database
from jobs.cleaner import Cleaner, CleanerOptions
from jobs.job_queue import JobQueue
from jobs.job_waiting import JobWaiting
from jobs.keeper import JobKeeper
from jobs.metrics import QueueMetrics
from jobs.queues import Queues
from jobs.reaper import Reaper
from jobs.waiting import Waiting
from runtime.process import Service

__all__ = ["JobsAssembly"]


class JobsAssembly:
    """``api`` serves the routes; ``services`` may run in any number of processes."""

    def __init__(self, database: Database, registry: CollectorRegistry, settings: Settings) -> None:
        self.waiting = Waiting(database)
        metrics = QueueMetrics(registry)
        self.job_waiting = JobWaiting(database)
        self.api = JobsContext(
            Queues(database, self.waiting.available),
            self.waiting,
            metrics,
            JobQueue(database, self.notify),
            self.job_waiting,
        )
        self._reaper = Reaper(database, metrics.reaped)
        days = CleanerOptions(settings.history_retention_days, settings.dead_letter_retention_days)
        self._cleaner = Cleaner(database, days, metrics.cleaned)
        self._keeper = JobKeeper(database, metrics.kept)
        self._alarm = alarm_of(settings, database)

    def notify(self) -> None:
        """End the waits of receivers and workers: something was submitted or enqueued somewhere."""
        self.waiting.notify()
        self.job_waiting.notify()

    @property
    def services(self) -> Sequence[Service]:
        """Return the background services."""
        alarm = [self._alarm] if self._alarm is not None else []
        return [self.waiting, self.job_waiting, self._reaper, self._cleaner, self._keeper, *alarm]

    @property
    def due(self) -> Mapping[str, Callable[[], None]]:
        """Return the service to notify for each column of the statement ``due.poll``."""
        alarmed = {"dead_tasks": self._alarm.notify} if self._alarm is not None else {}
        return {"messages": self._reaper.notify, "tasks": self._cleaner.notify, "jobs": self._keeper.notify, **alarmed}
