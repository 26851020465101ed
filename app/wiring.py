"""Wiring: the one place where rooms meet. Builds every part from the settings, hands the services to the process."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry

from app.api.context import Context
from app.failpoints import FailpointDatabase, Failpoints, FailpointSink
from app.fanout_sink import FanOutSink
from app.front import Front
from app.ingest import Ingest
from app.limits import RequestIds
from app.listen import Listener
from app.policy import guard_policy
from app.problem import Problems
from app.process import Service
from app.server import HttpServer, bind
from app.settings import Settings
from app.storage import EmbeddedWatch, Storage, open_storage
from app.upkeep import Upkeep
from app.web import build_web
from db.direct import Direct, connect_direct
from db.pool import Database
from hub.publish import Publisher
from hub.subscriptions import Subscriptions
from hub.topics import Topics
from relay.harvester import Harvester, HarvesterOptions
from relay.hold import Holds
from relay.lease import Lease, LeaseOptions
from relay.metrics import RelayMetrics
from relay.outbox import SHARDS, Outbox
from relay.sink import Sink
from relay.wake import Wake
from webhooks.contents import Contents
from webhooks.fanout import FanOut
from webhooks.guard import GuardPolicy
from webhooks.metrics import DeliveryMetrics
from webhooks.outbound import Client, ClientOptions
from webhooks.resolver import ThreadResolver
from webhooks.slots import SlotOptions
from webhooks.subscriber import Subscribers
from webhooks.worker import Worker, WorkerOptions

__all__ = ["ROLES", "Hub", "open_hub"]

ROLES: Final = ("api", "relay", "deliver")
_BACKLOG_CONNECTIONS = 2048


@dataclass(frozen=True, slots=True)
class Hub:
    """Services in the phases of a soft stop, and what a person wants to be told at the start."""

    phases: Sequence[Sequence[Service]]
    public_url: str
    sinks: Sequence[str]
    storage: Storage


@asynccontextmanager
async def open_hub(settings: Settings, roles: Sequence[str] = ROLES) -> AsyncIterator[Hub]:
    """Open the database and build what the roles need; closes everything on exit.

    Raises ``SettingsRefused``, ``ListenError``, ``EmbeddedError``, ``DatabaseError``, ``SecretBoxError``.
    """
    async with AsyncExitStack() as stack:
        sockets = await bind(*settings.listen_address, _BACKLOG_CONNECTIONS) if "api" in roles else []
        for listening in sockets:
            stack.callback(listening.close)
        port = sockets[0].getsockname()[1] if sockets else settings.listen_address[1]
        storage = await stack.enter_async_context(open_storage(settings))
        points = Failpoints(settings.failpoints)
        database = FailpointDatabase(storage.database, points) if points else storage.database
        builder = _Builder(settings, storage, database, points, stack, port)
        phases = await builder.build(roles, sockets)
        yield Hub(phases, builder.public_url, builder.sinks, storage)


class _Builder:
    """Holds what several parts share while they are put together."""

    def __init__(
        self,
        settings: Settings,
        storage: Storage,
        database: Database,
        points: Failpoints,
        stack: AsyncExitStack,
        port: int,
    ) -> None:
        self.public_url = settings.public_url.rstrip("/") or f"http://{settings.listen.rpartition(':')[0]}:{port}"
        self.sinks = ["webhooks"]
        self.sinks += ["kafka"] if settings.kafka_bootstrap_servers else []
        self.sinks += ["amqp"] if settings.amqp_url is not None else []
        self._settings = settings
        self._storage = storage
        self._database = database
        self._points = points
        self._stack = stack
        self._registry = CollectorRegistry()
        self._policy: GuardPolicy = guard_policy(settings, port)
        self._relay_metrics = RelayMetrics(self._registry)
        self._wakes: list[Wake] = []
        self._harvesters: list[Harvester] = []
        self._worker: Worker | None = None

    async def build(self, roles: Sequence[str], sockets: Sequence[socket.socket]) -> list[list[Service]]:
        await self._configure(roles)
        first: list[list[Service]] = []
        if "api" in roles:
            publisher = Publisher(self._database, self._ring)
            first = [[self._front(publisher, sockets)], [publisher]]
        if "deliver" in roles:
            self._worker = self._build_worker()
        if "relay" in roles:
            self._harvesters = [self._harvester(sink) for sink in self._build_sinks()]
        carriers: list[Service] = [*self._harvesters, *([self._worker] if self._worker else [])]
        last: list[Service] = [Listener(self._connect_direct, self._ring)]
        last.append(Upkeep(self._database, self._settings.idempotency_seconds))
        if self._storage.embedded is not None:
            last.append(EmbeddedWatch(self._storage.embedded))
        return [*first, carriers, last]

    async def _configure(self, roles: Sequence[str]) -> None:
        settings = self._settings
        notify = settings.sql_notify if settings.sql_notify is not None else settings.profile == "development"
        await self._database.execute("event.configure", settings.topics_auto_create, notify, settings.event_bytes_max)
        if "relay" in roles:
            await self._database.execute("event.configure_sinks", self.sinks)

    def _ring(self) -> None:
        for wake in self._wakes:
            wake.ring()

    def _due(self, subscriptions: Sequence[int]) -> None:
        if self._worker is not None:
            self._worker.due(subscriptions)

    def _relay_states(self) -> dict[str, tuple[str, str]]:
        return {h.sink_name: (h.state, h.last_error) for h in self._harvesters}

    async def _connect_direct(self) -> Direct:
        return await connect_direct(self._storage.database.options)

    def _front(self, publisher: Publisher, sockets: Sequence[socket.socket]) -> Front:
        settings = self._settings
        topics = Topics(self._database, auto_create=settings.topics_auto_create)
        problems = Problems(self.public_url)
        request_ids = RequestIds()
        context = Context(
            settings=settings,
            public_url=self.public_url,
            incarnation=self._storage.incarnation,
            database=self._database,
            topics=topics,
            subscriptions=Subscriptions(self._database, self._storage.secrets),
            policy=self._policy,
            registry=self._registry,
            relay_states=self._relay_states,
        )
        ingest = Ingest(publisher, topics, self._storage.incarnation)
        server = HttpServer(
            build_web(context, ingest, problems, request_ids, ()),
            sockets=sockets,
            problems=problems,
            request_ids=request_ids,
            trusted_proxies=settings.trusted_proxies,
        )
        return Front(server, self.public_url, settings.drain_seconds)

    def _build_worker(self) -> Worker:
        settings = self._settings
        slots = SlotOptions(
            settings.delivery_slots, settings.delivery_slots_per_subscription, settings.delivery_slots_per_host
        )
        client = Client(
            self._policy,
            ThreadResolver(),
            ClientOptions(
                user_agent=f"hookwire/0.1 (+{self.public_url})", idle_per_origin_max=settings.delivery_slots_per_host
            ),
        )
        self._stack.push_async_callback(client.aclose)
        options = WorkerOptions(
            name=f"{socket.gethostname()}-{os.getpid()}",
            public_url=self.public_url,
            schedule_seconds=settings.retry_schedule_seconds,
            timeout_seconds=settings.delivery_timeout_seconds,
            retry_after_seconds_max=settings.retry_after_seconds_max,
            slots=slots,
        )
        subscribers = Subscribers(self._database, self._storage.secrets, self._policy)
        contents = Contents(self._database, self._storage.incarnation)
        return Worker(self._database, client, subscribers, contents, DeliveryMetrics(self._registry), options)

    def _build_sinks(self) -> list[Sink]:
        return [FanOutSink(FanOut(self._database, self._due))]

    def _harvester(self, sink: Sink) -> Harvester:
        wake = Wake()
        self._wakes.append(wake)
        owner = f"{socket.gethostname()}-{os.getpid()}"
        lease = Lease(
            self._database, self._connect_direct, sink.name, 0, LeaseOptions(owner, self._settings.lease_seconds)
        )
        return Harvester(
            FailpointSink(sink, self._points) if self._points else sink,
            lease,
            Outbox(self._database, sink.name, self._storage.incarnation, payload=sink.features.payload),
            Holds(self._database, sink.name, self._storage.incarnation),
            wake,
            self._relay_metrics,
            HarvesterOptions(range(SHARDS)),
        )
