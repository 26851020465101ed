"""Wiring: the one place where rooms meet. It builds every part from the settings and returns the services for the
process.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import structlog
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp

from app.assembly.delivery_options import worker_options
from app.assembly.hub_options import hub_options
from app.assembly.jobs import JobsAssembly
from app.assembly.notifications import ProcessNotifications
from app.assembly.outbound import guarded_client, user_agent
from app.assembly.publishing import doors_context, publishing_apps
from app.assembly.relays import Relaying
from app.assembly.retention_options import retention_options
from app.assembly.roles import ROLES
from app.assembly.services import ServicesAssembly
from app.assembly.sinks import configured_sinks
from app.assembly.storage import EmbeddedWatch, Storage, open_storage
from app.assembly.web import operations_application, web_application
from app.bridges.fanout_sink import FanOutSink
from app.bridges.listener import Listener
from app.bridges.members import Members
from app.bridges.notifier import Notifier
from app.bridges.take_over import TakeOver
from app.event_log import EventLog, WatchedOutbound
from app.failpoints import FailpointDatabase, Failpoints
from app.maintenance.cleanup import Cleanup
from app.maintenance.due_poller import DuePoller
from app.maintenance.retention import Retention
from app.settings.address import own_url
from app.settings.egress_policy import guard_policy
from app.settings.settings import Settings
from app.verdict.current_verdict import CurrentVerdict
from app.verdict.presence import Presence, StateReport
from app.web.api.route.answers import Answers
from app.web.api.route.context import Context
from app.web.backlog import Backlog
from app.web.front import Front
from app.web.limits import RequestIds
from app.web.overview import Overview
from app.web.problem import Problems
from app.web.readiness import Readiness
from app.web.server import HttpServer, ServerLimits, bind
from db.direct import Direct, connect_direct
from db.pool import Database
from egress.client import Outbound
from egress.guard import GuardPolicy
from hub.acceptance import Hub
from hub.direct import DirectPath
from hub.fetching import Fetching
from hub.owed import ANYTHING, Owed
from hub.publish import Publisher
from hub.rabbithub.queues import RabbitHubQueues
from hub.signing_keys import SigningKeys
from hub.subscriptions import Subscriptions
from hub.topics import Topics
from hub.upstream import Upstreams
from hub.verification import Verification
from relay.metrics import RelayMetrics
from relay.observer import Handler
from runtime.loop_lag import LoopLag
from runtime.process import Service, process_name
from runtime.wake import Wake
from runtime.withdrawal import Withdrawal
from webhooks.contents import Contents
from webhooks.fanout import FanOut
from webhooks.metrics import DeliveryMetrics
from webhooks.pull import Pull
from webhooks.replay import Replayer
from webhooks.subscriber import Subscribers
from webhooks.worker import Worker

if TYPE_CHECKING:
    from app.assembly.sources import Sources

__all__ = ["Assembly", "open_hub"]

_log = structlog.get_logger(__name__)
_BACKLOG_CONNECTIONS = 2048
_METRICS_DRAIN_SECONDS = 1.0
_UNASKED_SECONDS = 300.0
"""The interval in which a service polls by itself for work that the due poller should have announced."""


@dataclass(frozen=True, slots=True)
class Assembly:
    """Services in the phases of a soft stop, and the addresses to print at the start.

    ``metrics_url`` is '' without a separate port for metrics.
    """

    phases: Sequence[Sequence[Service]]
    public_url: str
    metrics_url: str
    sinks: Sequence[str]
    storage: Storage
    relaying: Relaying | None


@asynccontextmanager
async def open_hub(
    settings: Settings, roles: Sequence[str] = ROLES, on_event: Handler | None = None,
    on_loaded: Callable[[], None] = lambda: None, given: Storage | None = None,
) -> AsyncIterator[Assembly]:  # fmt: skip
    """Open the database, if none is ``given``, and build the parts of the roles; close on exit what it opened.
    ``on_loaded`` is called when the routes of a listener are there.

    Raises ``SettingsRefused``, ``ListenError``, ``EmbeddedError``, ``DatabaseError``, ``SecretBoxError``.
    """
    async with AsyncExitStack() as stack:
        sockets = await bind(*settings.listen_address, _BACKLOG_CONNECTIONS) if "api" in roles else []
        metrics = settings.metrics_address
        metrics_sockets = await bind(*metrics, _BACKLOG_CONNECTIONS, "HOOKWIRE_METRICS_LISTEN") if metrics else []
        for listening in (*sockets, *metrics_sockets):
            stack.callback(listening.close)
        port = sockets[0].getsockname()[1] if sockets else settings.listen_address[1]
        storage = await stack.enter_async_context(open_storage(settings) if given is None else nullcontext(given))
        points = Failpoints(settings.failpoints)
        database = FailpointDatabase(storage.database, points) if points else storage.database
        metrics_port = metrics_sockets[0].getsockname()[1] if metrics_sockets else None
        builder = _Builder(settings, storage, database, points, stack, (port, metrics_port), on_event, on_loaded)
        phases = await builder.build(roles, sockets, metrics_sockets)
        yield Assembly(
            phases, builder.public_url, _url(settings.metrics_listen, metrics_sockets), builder.sinks, storage,
            builder.relaying,
        )  # fmt: skip


def _url(listen: str, sockets: Sequence[socket.socket]) -> str:
    """Return the URL of a listener, with its real port; '' when nothing listens."""
    return f"http://{listen.rpartition(':')[0]}:{sockets[0].getsockname()[1]}" if sockets else ""


class _Builder:
    """Builds the parts. It holds the objects that several parts share during the construction."""

    def __init__(
        self,
        settings: Settings,
        storage: Storage,
        database: Database,
        points: Failpoints,
        stack: AsyncExitStack,
        ports: tuple[int, int | None],
        on_event: Handler | None,
        on_loaded: Callable[[], None],
    ) -> None:
        self.public_url = settings.public_url.rstrip("/") or own_url(settings.listen, ports[0])
        self._agent = user_agent(self.public_url, storage.incarnation)
        self.sinks = configured_sinks(settings)
        self._settings = settings
        self._storage = storage
        self._database = database
        self._points = points
        self._stack = stack
        self._problems = Problems(self.public_url)
        self._request_ids = RequestIds()
        self._registry = CollectorRegistry()
        self._relay_metrics = RelayMetrics(self._registry)
        self._policy: GuardPolicy = guard_policy(settings, *ports)
        self._hub_wake = Wake(is_watched=True)
        self._fetch_wake = Wake(is_watched=True)
        self._notifications = ProcessNotifications()
        self.relaying: Relaying | None = None
        self._sources: Sources | None = None
        self._on_event, self._on_loaded = on_event, on_loaded
        self._event_log = EventLog(storage.incarnation, self._notifications.stored) if settings.logs_events else None

    async def build(
        self, roles: Sequence[str], sockets: Sequence[socket.socket], metrics_sockets: Sequence[socket.socket]
    ) -> list[list[Service]]:
        """Return the services, in the phases in which they are stopped."""
        if "relay" in roles:
            self.relaying = self._make_relaying()
        await self._configure(roles)
        withdrawal = Withdrawal(self._context.withdrawn, self._settings.stop_delay_seconds)
        phases: list[list[Service]] = [[withdrawal]] if "api" in roles else []
        serves, reads = "api" in roles, "source" in roles and self._settings.reads_sources
        if serves or reads:
            waking = self._wake_relays()
            publisher = Publisher(
                self._database, self._notifications.published_here.notify, on_stored=self._notifications.stored.notify,
                direct=self._direct_path(roles),
            )  # fmt: skip
            self._notifications.order_scope.connect(publisher.order_across_topics)
            front = (
                [self._front(publisher, sockets), *self._jobs.waits, self._services.waiting, self._context.doors.latest]
                if serves else []
            )  # fmt: skip
            inside = [publisher, *(self._subscribing() if serves else [])]
            if reads:
                from app.assembly.sources import Sources

                arguments = self._settings, self._database, self._hub, publisher, self._topics, self._registry
                self._sources = Sources(*arguments)
            phases += [[*front, *(self._sources.services if self._sources else ())], inside, waking]
        relays = self.relaying.relays if self.relaying else []
        phases.append([*relays, *(self._delivering() if "deliver" in roles else [])])
        # Stopped last, so that the metrics show the drain, and the claims of who is killed in it are taken over.
        taking: list[Service] = [self._take_over, self._members] if "deliver" in roles else []
        watching = [self._metrics_front(metrics_sockets)] if metrics_sockets else []
        phases.append([*self._background(), *taking, *watching])
        return phases

    async def _configure(self, roles: Sequence[str]) -> None:
        """Write the options of ``hookwire.publish`` into the database; each role writes its own."""
        settings = self._settings
        if "api" in roles:
            notify = settings.sql_notify if settings.sql_notify is not None else settings.profile == "development"
            limit = settings.event_bytes_max
            await self._database.execute(
                "event.configure", settings.topics_auto_create, notify, limit, settings.queues_auto_create,
                settings.kinds_auto_create, settings.services_auto_create, settings.names_per_key_max,
                settings.names_max,
            )  # fmt: skip
        if "relay" in roles:
            for row in await self._database.fetch("event.configure_sinks", self.sinks):
                _log.warning("sink_led_elsewhere", sink=row["name"], hint="this process has no address for it")

    def _wake_relays(self) -> list[Service]:
        """Connect this process's commits to its own relays, and to a notifier of the relays of other processes."""
        notifier, relaying = Notifier(self._database), self.relaying

        def notify(owed: Owed) -> None:
            if relaying is None or not relaying.leads(owed):
                notifier.notify()

        if relaying is not None:
            self._notifications.published_here.connect(self._notifications.published.notify)
        self._notifications.published_here.connect(notify)
        return [notifier]

    def _subscribing(self) -> list[Service]:
        """Build the services that verify subscriptions, and that fetch or subscribe to foreign topics."""
        hub, upstream_wake, due = self._hub, Wake(is_watched=True), self._notifications.due
        verification = Verification(self._database, self._outbound, hub.secret_box, hub.options, self._hub_wake)
        on_commit = self._notifications.published_somewhere
        fetching = Fetching(self._database, self._outbound, hub.options, self._fetch_wake, on_commit)
        due["intents"].connect(self._hub_wake.notify)
        due["leases"].connect(verification.sweep)
        due["foreign_topics"].connect(self._fetch_wake.notify)
        due["upstreams"].connect(upstream_wake.notify)
        return [verification, fetching, Upstreams(hub, self._outbound, upstream_wake)]

    def _delivering(self) -> list[Service]:
        notifications = self._notifications
        due = notifications.deliveries_due.notify
        replayer = Replayer(self._database, due, poll_seconds=_UNASKED_SECONDS)
        queues = RabbitHubQueues(self._database, due, self._settings.rabbithub_tell_expiry_days)
        notifications.deliveries_due.connect(self._worker.mark_due)
        notifications.fanned_out.connect(self._worker.mark_due)
        notifications.fanned_out.connect(lambda _: queues.fanned_out())
        notifications.due["deliveries"].connect(self._worker.poll_now)
        notifications.due["replays"].connect(replayer.notify)
        notifications.due["rabbithub"].connect(queues.poll_now)
        callbacks = [made.make_callbacks(self._outbound, self._subscribers) for made in (self._services, self._jobs)]
        return [self._worker, replayer, queues, *callbacks]

    def _background(self) -> list[Service]:
        notifications = self._notifications
        services: list[Service] = [
            *self._jobs.services,
            *self._services.services,
            Listener(
                self._connect_direct,
                {
                    "hookwire_outbox": lambda _: notifications.published.notify(ANYTHING),
                    "hookwire_jobs": lambda _: self._jobs.notify(),
                    "hookwire_services": self._services.waiting.told,
                    **(self.relaying.channels if self.relaying is not None else {}),
                },
            ),
            Cleanup(self._database, self._settings.idempotency_seconds),
            Retention(self._database, retention_options(self._settings)),
            LoopLag(self._registry),
            Presence(self._database, process_name(), self._reports, self._context.verdict.expire),
        ]
        if self._storage.embedded is not None:
            watch = EmbeddedWatch(self._storage.embedded)
            notifications.database_silent.connect(watch.notify)
            services.append(watch)
        services.append(
            DuePoller(
                self._database,
                {
                    **{column: signal.notify for column, signal in notifications.due.items()},
                    **self._jobs.due,
                    **self._services.due,
                },
                notifications.polled.notify,
                notifications.database_silent.notify,
                notifications.order_scope.notify,
            )
        )
        if self.relaying is not None:
            services += self.relaying.services
        return services

    @cached_property
    def _topics(self) -> Topics:
        return Topics(self._database, auto_create=self._settings.topics_auto_create)

    @cached_property
    def _jobs(self) -> JobsAssembly:
        return JobsAssembly(self._database, self._registry, self._settings)

    @cached_property
    def _services(self) -> ServicesAssembly:
        return ServicesAssembly(self._database, self._registry, self._settings, self._notifications.published_somewhere)

    def _relay_states(self) -> dict[str, tuple[str, str]]:
        return self.relaying.states() if self.relaying is not None else {}

    def _reports(self) -> list[StateReport]:
        """Return the states of the sinks and sources of this process."""
        sinks = [StateReport("sink", name, state, error) for name, (state, error) in self._relay_states().items()]
        sources = self._sources.reports() if self._sources is not None else []
        ill = ("backing off", "refused", "refusing", "passing over")
        return [one if one.state in ill else one._replace(reason="") for one in (*sinks, *sources)]

    async def _connect_direct(self) -> Direct:
        return await connect_direct(self._storage.database.options)

    @cached_property
    def _outbound(self) -> Outbound:
        client = guarded_client(self._settings, self._policy, self._agent)
        self._stack.push_async_callback(client.aclose)
        return client

    @cached_property
    def _hub(self) -> Hub:
        return Hub(
            self._database,
            hub_options(self._settings, self.public_url, self._policy),
            self._storage.secrets,
            self._topics.names,
            self._hub_wake.notify,
            self._fetch_wake.notify,
            self._notifications.published_somewhere,
            incarnation=self._storage.incarnation,
        )

    def _front(self, publisher: Publisher, sockets: Sequence[socket.socket]) -> Front:
        settings, context = self._settings, self._context
        apps = publishing_apps(settings, context, publisher)
        web, routes = web_application(context, *apps, self._problems, self._request_ids, self._agent)
        # HTTP gets half of the time, so that a slow client does not shorten the soft stop of relays and workers.
        server, drain_seconds = self._server(web, sockets), settings.drain_seconds / 2
        return Front("http", server, routes, drain_seconds, self._on_loaded, context.leaving)

    def _metrics_front(self, sockets: Sequence[socket.socket]) -> Front:
        operations, routes = operations_application(self._context, self._problems, self._request_ids)
        return Front("metrics", self._server(operations, sockets), routes, _METRICS_DRAIN_SECONDS, lambda: None)

    def _server(self, application: ASGIApp, sockets: Sequence[socket.socket]) -> HttpServer:
        return HttpServer(
            application,
            sockets=sockets,
            problems=self._problems,
            request_ids=self._request_ids,
            trusted_proxies=self._settings.trusted_proxies,
            limits=ServerLimits(keep_alive_seconds=self._settings.keep_alive_seconds),
        )

    @cached_property
    def _context(self) -> Context:
        verdict = CurrentVerdict(self._database)
        overview = Overview(self._database, verdict, self.public_url, self._settings.profile, self._storage.incarnation)
        return Context(
            settings=self._settings,
            public_url=self.public_url,
            incarnation=self._storage.incarnation,
            database=self._database,
            topics=self._topics,
            subscriptions=Subscriptions(self._database, self._storage.secrets),
            signing_keys=SigningKeys(self._database, self._storage.secrets),
            doors=doors_context(self._database, self._storage.secrets),
            hub=self._hub,
            policy=self._policy,
            outbound=self._outbound,
            pull=Pull(
                self._database, Contents(self._database, self._storage.incarnation), f"pull at {socket.gethostname()}"
            ),
            answers=Answers(),
            jobs=self._jobs.api,
            services=self._services.api,
            registry=self._registry,
            backlog=Backlog(verdict, self._registry, self._database.options.fence),
            verdict=verdict,
            overview=overview,
            readiness=Readiness(self._database, overview.classify_outage),
            relay_states=self._relay_states,
        )

    @cached_property
    def _subscribers(self) -> Subscribers:
        return Subscribers(self._database, self._storage.secrets, self._policy)

    def _direct_path(self, roles: Sequence[str]) -> DirectPath | None:
        """Return the direct path from publishing to the worker, where one process has all roles of it."""
        if self.relaying is None or "deliver" not in roles or not self._settings.has_direct_path:
            return None
        return DirectPath(self._worker.offers.make, self.relaying.low_water_of_webhooks, pass_by=self.relaying.pass_by)

    @cached_property
    def _worker(self) -> Worker:
        settings = self._settings
        outbound = WatchedOutbound(self._outbound, self._event_log) if self._event_log else self._outbound
        options = worker_options(settings, self.public_url, _UNASKED_SECONDS)
        contents = Contents(self._database, self._storage.incarnation)
        self._notifications.stored.connect(contents.remember_stored)
        metrics, note, member = DeliveryMetrics(self._registry), self._take_over.note, self._members.current
        return Worker(self._database, outbound, self._subscribers, contents, metrics, options, note=note, member=member)

    @cached_property
    def _take_over(self) -> TakeOver:
        folder, notify = self._settings.data_dir / "claims", self._notifications.deliveries_due.notify
        take_over = TakeOver(self._database, folder, self._storage.incarnation, notify)
        return self._stack.enter_context(closing(take_over))

    @cached_property
    def _members(self) -> Members:
        return Members(self._database, self._connect_direct, process_name(), self._notifications.deliveries_due.notify)

    def _make_relaying(self) -> Relaying:
        notify, seconds = self._notifications.fanned_out.notify, self._settings.fan_out_seconds_max
        relaying = Relaying(
            self._settings, self._database, self._connect_direct, self._storage.incarnation, self.sinks,
            self._relay_metrics, self._points,
            {
                "webhooks": lambda: FanOutSink(FanOut(self._database, notify, seconds_max=seconds)),
                "jobs": lambda: self._jobs.make_sink(self._storage.incarnation),
            },
            self._on_event,
        )  # fmt: skip
        self._notifications.published.connect(relaying.notify)
        self._notifications.polled.connect(relaying.on_poll)
        return relaying
