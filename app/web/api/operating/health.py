"""/healthz, /readyz, /metrics: for operators and their tools."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, FastAPI, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse

from app.verdict.verdict import Word
from app.web.api.dependency import In
from app.web.api.operating.ready_answer import ready_answer
from app.web.api.route.context import Context
from app.web.api.route.json_route import JsonRoute
from app.web.problem import Problems, install_problem_handlers
from app.web.scopes import needs, open_to_all

__all__ = ["build_operations", "router"]

router = APIRouter(tags=["operations"], route_class=JsonRoute)


class Alive(BaseModel):
    """The process answers."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"status": "ok"}]})

    status: Literal["ok"]


class SinkHealth(BaseModel):
    """A sink that this process relays."""

    state: str = Field(description="leading, standby, backing off, refused, stopped")
    error: str | None = Field(None, description="Reason of its back-off.")


class Ready(BaseModel):
    """The state of the hub's dependencies."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"status": "ok", "database": "ok", "sinks": {"webhooks": {"state": "leading"}}, "verdict": "ok"}
            ]
        }
    )

    status: Literal["ok", "degraded", "unavailable", "starting", "stopping"]
    database: Literal["ok", "slow", "full", "failing", "unreachable"] = Field(
        description="slow: its server accepts connections, but did not answer a simple query within two seconds. "
        "full: its server takes no more connections. failing: its server answers and cannot store anything, "
        "because its disk is full, it is read-only, or it lacks memory."
    )
    sinks: dict[str, SinkHealth]
    verdict: Word = Field(description="The word of GET /status, which says what is wrong; at most some seconds old.")


@router.get("/healthz", summary="Check that the process is alive")
@open_to_all
async def healthz() -> Alive:
    """Ignores dependencies: a database that is down is no reason to kill the hub."""
    return Alive(status="ok")


@router.get(
    "/readyz",
    summary="Check that the hub can serve",
    response_model=Ready,
    responses={
        503: {
            "model": Ready,
            "description": "The database cannot be reached, is full, is too slow, or cannot write; or the hub starts "
            "or stops.",
        }
    },
)
@open_to_all
async def readyz(context: In) -> JSONResponse:
    """Ready means that publishing works: the hub tests a write to the database, at most once in five seconds.

    A broker that is down leaves the hub ready, and is named. While it starts, the hub takes events before it is ready:
    other requests would wait until the API is loaded. Before it stops, it is not ready for HOOKWIRE_STOP_DELAY_SECONDS,
    and still takes requests.
    """
    return await ready_answer(context)


@router.get(
    "/metrics",
    summary="Prometheus metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Counters and gauges."}},
)
@needs("read", instead="Metrics count all topics. GET /status shows your own.")
async def metrics(context: In) -> Response:
    """Answers in the exposition format. Counts of waiting rows need the database; without it the other metrics are
    still there.
    """
    await context.backlog.refresh()
    return Response(generate_latest(context.registry), media_type=CONTENT_TYPE_LATEST)


def build_operations(context: Context, problems: Problems) -> FastAPI:
    """Return the application of these routes alone, for a separate port. It needs no other route of the API."""
    api = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    api.state.context = context
    api.router.routes.extend(router.routes)
    install_problem_handlers(api, problems)
    return api
