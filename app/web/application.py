"""The HTTP application: FastAPI for all but publishing, which goes straight to :mod:`app.web.publishing.ingest`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog
from fastapi import APIRouter, FastAPI, Request
from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.web.api import docs, keys
from app.web.api.contract import TITLE, VERSION, operation_id
from app.web.api.events import event_search, events, timeline, topic_stats, topics
from app.web.api.operating import (
    audit,
    dead_letters,
    deliveries,
    doors,
    erasures,
    health,
    holds,
    incidents,
    probes,
    recoveries,
    replays,
    sinks,
    sources,
    status,
    undelivered,
)
from app.web.api.rabbithub.routes import RABBITHUB_ROUTES
from app.web.api.route.context import Context, context_of
from app.web.api.route.effect import WithoutEffect
from app.web.api.subscribing import (
    denial,
    filters,
    foreign_topics,
    handshake,
    pull,
    sample_send,
    signing_keys,
    stats,
    subscription_replay,
    subscriptions,
    upstreams,
)
from app.web.api.subscribing.hub import HUB_ROUTES
from app.web.api.work import (
    archive,
    job_assignment,
    job_kinds,
    jobs,
    messages,
    queues,
    requests,
    services,
    tasks,
    work_stats,
)
from app.web.authentication import Authentication, Keyring
from app.web.console.inner_api import InnerApi
from app.web.console.routers import CONSOLE_ROUTERS
from app.web.limits import MIB, FrontDoor, RequestIds, RequestLimits
from app.web.page_policy import PublishingPages, operations_policy, page_policy
from app.web.pages import install_problem_pages
from app.web.pages.sessions import Sessions
from app.web.problem import Problem, Problems, install_problem_handlers, problem_of_database, request_id_of
from app.web.publishing.envelope import is_publish
from app.web.publishing.inbound import Inbound
from app.web.publishing.inbound_path import is_inbound
from app.web.publishing.ingest import Ingest
from app.web.repeats import Repeats
from app.web.route_needs import RouteNeeds
from db.errors import Busy, DatabaseError, OutcomeUnknown, ServerTrouble, Unavailable
from db.names import TooManyNames
from db.secret_box import SecretBoxError
from hub.acceptance import Hub
from hub.keys import Keys

__all__ = ["build_api", "build_operations", "build_web"]

_log = structlog.get_logger(__name__)
_ROUTERS: Sequence[APIRouter] = (
    subscriptions.router,
    signing_keys.router,
    handshake.router,
    handshake.invitations,
    denial.router,
    deliveries.router,
    undelivered.router,
    event_search.router,
    events.router,
    timeline.router,
    topics.router,
    foreign_topics.router,
    upstreams.router,
    keys.router,
    filters.router,
    pull.router,
    subscription_replay.router,
    stats.router,
    topic_stats.router,
    work_stats.router,
    sample_send.router,
    messages.router,
    queues.router,
    archive.router,
    tasks.kinds,
    tasks.router,
    services.router,
    requests.router,
    job_kinds.router,
    jobs.router,
    jobs.reports,
    job_assignment.router,
    holds.router,
    incidents.router,
    probes.router,
    recoveries.router,
    sinks.router,
    sources.router,
    doors.router,
    dead_letters.router,
    replays.router,
    erasures.router,
    audit.router,
    health.router,
    status.router,
    *CONSOLE_ROUTERS,
)


def build_api(problems: Problems) -> FastAPI:
    """Return the FastAPI application without its context; enough to write the OpenAPI file."""
    # Redirects to the path without its last slash would be built from the untrusted Host.
    api = FastAPI(title=TITLE, version=VERSION, openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    # Not include_router(): it builds every route again for this application, and all that differs is their names.
    for router in _ROUTERS:
        for route in router.routes:
            if isinstance(route, APIRoute):
                route.unique_id = operation_id(route)
        api.router.routes.extend(router.routes)
    docs.install_docs(api)
    install_problem_pages(api)
    api.router.routes.extend((*HUB_ROUTES, *RABBITHUB_ROUTES))
    install_problem_handlers(api, problems)
    _install_database_handlers(api, problems)
    return api


def build_web(
    context: Context,
    ingest: Ingest,
    inbound: Inbound,
    problems: Problems,
    request_ids: RequestIds,
    own_agent: str,
) -> ASGIApp:
    """Return the whole application, within its request limits. ``own_agent`` is the User-Agent of our own
    deliveries.
    """
    api = build_api(problems)
    api.state.context = context
    api.state.without_effect = WithoutEffect(context.registry)
    settings = context.settings
    event_bytes_max = settings.event_bytes_max
    limits = RequestLimits(events_bytes_max=event_bytes_max, batch_bytes_max=max(4 * MIB, event_bytes_max))
    inside: ASGIApp = _Fork(
        ingest, inbound, Repeats(api, context.database, _tell(context.hub)), context.readiness.doubt
    )
    needs = RouteNeeds(api.routes) if settings.needs_keys else None
    api.state.inner_api = InnerApi(inside, needs)
    api.state.keyring = None
    if needs is not None:
        api.state.keyring = keyring = Keyring(Keys(context.database), Sessions(context.database))
        inside = Authentication(
            inside, keyring, needs, hub_is_open=settings.hub_access == "open", docs_are_open=settings.serves_docs
        )
    pages = page_policy(settings, context.public_url)
    door = FrontDoor(
        inside, problems=problems, limits=limits, request_ids=request_ids, pages=pages, own_agent=own_agent.encode()
    )
    return PublishingPages(door, settings.origins) if settings.origins else door


def build_operations(context: Context, problems: Problems, request_ids: RequestIds) -> ASGIApp:
    """Return health and metrics alone, for a separate port. Every client of that port may read them without a key."""
    api = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    api.state.context = context
    api.router.routes.extend(health.router.routes)
    install_problem_handlers(api, problems)
    # No key is asked for here, so a page that was rebound to this address may not read the answers either.
    pages = operations_policy(context.settings, context.public_url)
    return FrontDoor(api, problems=problems, request_ids=request_ids, pages=pages)


def _tell(hub: Hub) -> Callable[[], None]:
    """Return what wakes the workers of this process: they looked before the commit of a joined transaction."""

    def tell() -> None:
        hub.on_publish()
        hub.wake()
        hub.wake_fetching()

    return tell


class _Fork:
    """Sends publishing to the ingest, webhooks to their doors, the rest to the routes. ``doubt`` is called if the
    database refused.
    """

    def __init__(self, ingest: Ingest, inbound: Inbound, api: ASGIApp, doubt: Callable[[], None]) -> None:
        self._ingest = ingest
        self._inbound = inbound
        self._api = api
        self._doubt = doubt

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app_of(scope)(scope, receive, send)
        except Problem as problem:
            if problem.slug == "database-unavailable":
                self._doubt()
            raise

    def _app_of(self, scope: Scope) -> ASGIApp:
        if is_publish(scope):
            return self._ingest
        return self._inbound if is_inbound(scope) else self._api


def _install_database_handlers(api: FastAPI, problems: Problems) -> None:
    """Turn operating errors of the database, and secrets that cannot be read, into 503, and a name beyond the limits
    into 409. Data that the database refuses is our own mistake and stays a 500.
    """

    async def refuse(request: Request, error: Exception) -> Response:
        return problems.response(Problem("too-many-names", str(error)), request_id_of(request.scope))

    api.add_exception_handler(TooManyNames, refuse)

    async def lacks_key(request: Request, error: Exception) -> Response:
        _log.error("secret_unreadable", request_id=request_id_of(request.scope), error=str(error))
        return problems.response(Problem("secret-unreadable"), request_id_of(request.scope))

    api.add_exception_handler(SecretBoxError, lacks_key)

    async def answer(request: Request, error: Exception) -> Response:
        assert isinstance(error, DatabaseError)
        if isinstance(error, ServerTrouble):  # the answer does not include it: the message may name files and tables
            _log.warning("database_trouble", request_id=request_id_of(request.scope), error=str(error))
        reads = request.method in ("GET", "HEAD")
        if not reads:
            context_of(request).readiness.doubt()
        return problems.response(problem_of_database(error, reads=reads), request_id_of(request.scope))

    for kind in (Busy, OutcomeUnknown, Unavailable):
        api.add_exception_handler(kind, answer)
