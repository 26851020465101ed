"""The HTTP application: FastAPI for everything but publishing, which goes straight to :mod:`app.ingest`."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, FastAPI
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api import deliveries, events, health, subscriptions, topics
from app.api.context import Context
from app.ingest import Ingest, is_publish
from app.limits import FrontDoor, RequestIds, RequestLimits
from app.problem import Problem, Problems, install_problem_handlers
from db.errors import Busy, DatabaseError

__all__ = ["build_api", "build_web"]

_ROUTERS: Sequence[APIRouter] = (subscriptions.router, deliveries.router, events.router, topics.router, health.router)


def build_api(problems: Problems, extra_routes: Sequence[BaseRoute] = ()) -> FastAPI:
    """The FastAPI application without its context; enough to write the OpenAPI file."""
    api = FastAPI(
        title="hookwire", version="0.1.0", openapi_url=None, docs_url=None, redoc_url=None,
        description="POST an event once; it reaches every webhook, Kafka topic and AMQP exchange that asked for it.",
    )  # fmt: skip
    for router in _ROUTERS:
        api.include_router(router)
    api.router.routes.extend(extra_routes)
    install_problem_handlers(api, problems)
    return api


def build_web(
    context: Context, ingest: Ingest, problems: Problems, request_ids: RequestIds, extra_routes: Sequence[BaseRoute]
) -> ASGIApp:
    """The whole application behind its front door."""
    api = build_api(problems, extra_routes)
    api.state.context = context
    limits = RequestLimits(events_bytes_max=context.settings.event_bytes_max)
    return FrontDoor(_Fork(ingest, api), problems=problems, limits=limits, request_ids=request_ids)


class _Fork:
    """Publishing to the left, everything else to the right; operating errors of the database become 503."""

    def __init__(self, ingest: Ingest, api: FastAPI) -> None:
        self._ingest = ingest
        self._api = api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await (self._ingest if is_publish(scope) else self._api)(scope, receive, send)
        except Busy as error:
            raise Problem("busy") from error
        except DatabaseError as error:
            raise Problem("database-unavailable") from error
