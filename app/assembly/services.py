"""Services: the parts of the bridge in one process, put together for ``app.wiring``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from prometheus_client import CollectorRegistry

from app.bridges.subscribed_callbacks import SubscribedCallbacks
from app.settings.settings import Settings
from app.web.api.route.context import ServicesContext
from db.pool import Database
from egress.callback import CallbackOptions
from egress.client import Outbound
from reqrep.bridge.callbacks import Callbacks
from reqrep.bridge.metrics import RequestMetrics
from reqrep.bridge.reaper import RequestReaper
from reqrep.bridge.request_notices import RequestNotices
from reqrep.bridge.requests import Requests
from reqrep.bridge.waiting import ServiceWaiting
from runtime.process import Service
from webhooks.subscriber import Subscribers

__all__ = ["ServicesAssembly"]


class ServicesAssembly:
    """The parts of the bridge. ``api`` serves the routes; ``services`` may run in any number of processes.

    ``on_event`` is called after a reply was published whose event a relay has to send.
    """

    def __init__(
        self, database: Database, registry: CollectorRegistry, settings: Settings, on_event: Callable[[], None]
    ) -> None:
        self._database = database
        self._settings = settings
        self._metrics = RequestMetrics(registry)
        self._callbacks: Callbacks | None = None
        self.waiting = ServiceWaiting(database)
        notices = RequestNotices(database)
        self.requests = Requests(database, self.waiting, self._requested, notices, on_event)
        self.api = ServicesContext(self.requests, self.waiting, self._metrics)
        self._reaper = RequestReaper(database, settings.history_retention_days, self._metrics.reaped)
        self.services: Sequence[Service] = [self._reaper, notices]

    @property
    def due(self) -> Mapping[str, Callable[[], None]]:
        """Return the service to notify for each column of the statement ``due.poll``."""
        of_callbacks = {"callbacks": self._callbacks.poll_now} if self._callbacks is not None else {}
        return {"requests": self._reaper.notify, **of_callbacks}

    def make_callbacks(self, outbound: Outbound, subscribers: Subscribers) -> Callbacks:
        """Return the service that works by callbacks, for the role that delivers."""
        options = CallbackOptions(self._settings.delivery_timeout_seconds, self._settings.event_bytes_max)
        self._callbacks = Callbacks(
            self._database, self.requests, outbound, SubscribedCallbacks(subscribers), options, self._metrics.posted
        )
        return self._callbacks

    def _requested(self, service: str) -> None:
        if self._callbacks is not None:
            self._callbacks.requested(service)
