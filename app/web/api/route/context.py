"""Context: the dependencies of the routes, built once by ``app.wiring``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from prometheus_client import CollectorRegistry
from starlette.requests import Request

from app.settings.settings import Settings
from app.verdict.current_verdict import CurrentVerdict
from app.web.api.route.answers import Answers
from app.web.backlog import Backlog
from app.web.overview import Overview
from app.web.readiness import Readiness
from db.pool import Database
from egress.client import Outbound
from egress.guard import GuardPolicy
from hub.acceptance import Hub
from hub.inbound.doors import Doors
from hub.inbound.known_doors import KnownDoors
from hub.inbound.latest import LatestRequests
from hub.signing_keys import SigningKeys
from hub.subscriptions import Subscriptions
from hub.topics import Topics
from jobs.jobs.job_queue import JobQueue
from jobs.jobs.job_waiting import JobWaiting
from jobs.metrics import QueueMetrics
from jobs.queues.queues import Queues
from jobs.queues.waiting import Waiting
from reqrep.bridge.metrics import RequestMetrics
from reqrep.bridge.requests import Requests
from reqrep.bridge.waiting import ServiceWaiting
from webhooks.pull import Pull

__all__ = ["Context", "DoorsContext", "JobsContext", "ServicesContext", "context_of"]


@dataclass(frozen=True, slots=True)
class DoorsContext:
    """The doors of inbound sources: their store, those that were used recently, their last requests."""

    doors: Doors
    known: KnownDoors
    latest: LatestRequests


@dataclass(frozen=True, slots=True)
class JobsContext:
    """The dependencies of the routes of queues, tasks and jobs."""

    queues: Queues
    waiting: Waiting
    metrics: QueueMetrics
    queue: JobQueue
    job_waiting: JobWaiting


@dataclass(frozen=True, slots=True)
class ServicesContext:
    """The dependencies of the routes of services and requests."""

    requests: Requests
    waiting: ServiceWaiting
    metrics: RequestMetrics


@dataclass(frozen=True, slots=True)
class Context:
    """The dependencies of all routes; one object per process. ``relay_states`` returns state and last error of each
    sink that this process relays. ``leaving`` is set as soon as the process stops: who waits is answered then.
    ``withdrawn`` is set before, when the process begins to take leave of its balancer. Each of ``awaited`` is set when
    the routes of a listener are there.
    """

    settings: Settings
    public_url: str
    incarnation: str
    database: Database
    topics: Topics
    subscriptions: Subscriptions
    signing_keys: SigningKeys
    doors: DoorsContext
    hub: Hub
    policy: GuardPolicy
    outbound: Outbound
    pull: Pull
    answers: Answers
    jobs: JobsContext
    services: ServicesContext
    registry: CollectorRegistry
    backlog: Backlog
    verdict: CurrentVerdict
    overview: Overview
    readiness: Readiness
    relay_states: Callable[[], dict[str, tuple[str, str]]]
    leaving: asyncio.Event = field(default_factory=asyncio.Event)
    withdrawn: asyncio.Event = field(default_factory=asyncio.Event)
    awaited: list[asyncio.Event] = field(default_factory=list)

    @property
    def stage(self) -> Literal["starting", "stopping"] | None:
        """What a balancer waits for, or is told; None while the process serves all requests."""
        if self.withdrawn.is_set():
            return "stopping"
        return None if all(routes.is_set() for routes in self.awaited) else "starting"


def context_of(request: Request) -> Context:
    """Return the context of a request's application."""
    context: Context = request.app.state.context
    return context
