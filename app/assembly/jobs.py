"""Jobs: the parts of the room ``jobs`` in one process, put together for ``app.wiring``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from prometheus_client import CollectorRegistry

from app.bridges.alarm import alarm_of
from app.bridges.job_sink import JobSink
from app.bridges.subscribed_callbacks import SubscribedCallbacks
from app.settings.settings import Settings
from app.web.api.route.context import JobsContext
from db.pool import Database
from egress.callback import CallbackOptions
from egress.client import Outbound
from jobs.jobs.callbacks import PushedJobs
from jobs.jobs.event_jobs import EventJobs
from jobs.jobs.job_maintainer import JobMaintainer
from jobs.jobs.job_queue import JobQueue
from jobs.jobs.job_waiting import JobWaiting
from jobs.metrics import QueueMetrics
from jobs.queues.queues import Queues
from jobs.queues.reaper import Reaper
from jobs.queues.waiting import Waiting
from jobs.tasks.cleaner import Cleaner
from runtime.process import Service
from webhooks.subscriber import Subscribers

__all__ = ["JobsAssembly"]


class JobsAssembly:
    """The parts of the room ``jobs``. ``api`` serves the routes; ``services`` may run in any number of processes."""

    def __init__(self, database: Database, registry: CollectorRegistry, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._metrics = metrics = QueueMetrics(registry)
        self._callbacks: PushedJobs | None = None
        self.waiting = Waiting(database)
        self.job_waiting = JobWaiting(database)
        self.api = JobsContext(
            Queues(database, self.waiting.available),
            self.waiting,
            metrics,
            JobQueue(database, self.notify),
            self.job_waiting,
        )
        self._reaper = Reaper(database, metrics.reaped)
        archive_days, dead_days = settings.history_retention_days, settings.dead_letter_retention_days
        self._cleaner = Cleaner(database, archive_days, dead_days, metrics.cleaned)
        self._maintainer = JobMaintainer(database, metrics.kept)
        self._alarm = alarm_of(settings, database)

    def notify(self) -> None:
        """End the waits of receivers and workers: something was submitted or enqueued somewhere."""
        self.waiting.notify()
        self.job_waiting.notify()
        if self._callbacks is not None:
            self._callbacks.enqueued()

    def make_callbacks(self, outbound: Outbound, subscribers: Subscribers) -> PushedJobs:
        """Return the service that pushes jobs to callbacks, for the role that delivers."""
        settings = self._settings
        options = CallbackOptions(
            settings.delivery_timeout_seconds, settings.event_bytes_max, settings.retry_after_seconds_max
        )
        book = SubscribedCallbacks(subscribers)
        self._callbacks = PushedJobs(self._database, self.api.queue, outbound, book, options, self._metrics.posted)
        return self._callbacks

    def make_sink(self, incarnation: str) -> JobSink:
        """Return the sink that enqueues jobs from events, for the role that relays."""
        return JobSink(EventJobs(self._database, incarnation, self.notify))

    @property
    def services(self) -> Sequence[Service]:
        """Return the background services."""
        alarm = [self._alarm] if self._alarm is not None else []
        return [self._reaper, self._cleaner, self._maintainer, *alarm]

    @property
    def waits(self) -> Sequence[Service]:
        """Return the services on which requests wait. They stop with HTTP, so that whoever waits is answered."""
        return [self.waiting, self.job_waiting]

    @property
    def due(self) -> Mapping[str, Callable[[], None]]:
        """Return the service to notify for each column of the statement ``due.poll``."""
        alarmed = {"dead_tasks": self._alarm.notify} if self._alarm is not None else {}
        pushed = {"pushed_jobs": self._callbacks.poll_now} if self._callbacks is not None else {}
        return {
            "messages": self._reaper.notify,
            "tasks": self._cleaner.notify,
            "jobs": self._maintainer.notify,
            **alarmed,
            **pushed,
        }
