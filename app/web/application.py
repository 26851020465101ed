"""The routes of the HTTP application: FastAPI for all but publishing, which goes straight to
:mod:`app.web.publishing.ingest`.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog
from fastapi import APIRouter, FastAPI, Request
from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.types import ASGIApp

from app.web.api import docs, keys
from app.web.api.contract import TITLE, VERSION, operation_id
from app.web.api.events import event_search, events, timeline, topic_schemas, topic_stats, topics
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
from app.web.authentication import Keyring
from app.web.console.inner_api import InnerApi
from app.web.console.routers import CONSOLE_ROUTERS
from app.web.pages import install_problem_pages
from app.web.problem import Problem, Problems, install_problem_handlers, problem_of_database, request_id_of
from app.web.route_needs import RouteNeeds
from db.errors import Busy, DatabaseError, OutcomeUnknown, ServerTrouble, Unavailable
from db.names import TooManyNames
from db.secret_box import SecretBoxError

__all__ = ["build_api", "build_routes"]

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
    topic_schemas.router,
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


def build_routes(
    context: Context, problems: Problems, inside: ASGIApp, needs: RouteNeeds | None, keyring: Keyring | None,
    without_effect: WithoutEffect,
) -> FastAPI:  # fmt: skip
    """Return the application with its context. ``inside`` takes what its pages ask for, and calls it in turn. ``needs``
    gets the declarations of its routes; None: requests need no key.
    """
    api = build_api(problems)
    if needs is not None:
        needs.declare(api.routes)
    api.state.context = context
    api.state.without_effect = without_effect
    api.state.inner_api = InnerApi(inside, needs)
    api.state.keyring = keyring
    return api


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
