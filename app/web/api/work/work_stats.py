"""Rates and times of queues, kinds of tasks and of jobs, and services, from their archives."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.dependency import In
from app.web.api.route.context import Context
from app.web.api.route.moment import TIMES_EXAMPLE, Quantiles, Since, Until, rate, span_of
from app.web.api.route.refusals import refusals
from app.web.api.route.strict_route import StrictRoute
from app.web.api.work.former_name import answer_below
from app.web.api.work.job_refusal import require_kinds
from app.web.api.work.queue_refusal import queue_name
from app.web.api.work.service_refusal import service_name
from app.web.scopes import needs

__all__ = ["WorkStats", "router"]

router = APIRouter(route_class=StrictRoute, responses=refusals("database-unavailable", "busy", "invalid-parameter"))
Name = Annotated[str, Path(description="1 to 200 characters of `A-Z a-z 0-9 . _ -` in dot-separated words.")]
Kind = Literal["queue", "task", "job", "service"]
_ENDED_MAX: Final = 20_000
_STATEMENTS: Final = {"queue": "stats.queue", "task": "stats.task", "job": "stats.job", "service": "stats.service"}
_EXAMPLE: dict[str, Any] = {
    "since": "2026-01-15T09:03:00Z", "until": "2026-01-15T10:03:00Z", "kept": True, "ended": 720, "done": 716,
    "failed": 4, "success": 0.9944, "ended_per_second": 0.2, "more": False, "run_seconds": TIMES_EXAMPLE,
    "age_seconds": TIMES_EXAMPLE, "waiting": 3, "oldest_seconds": 1.2,
}  # fmt: skip


class WorkStats(BaseModel):
    """What ended in a span of time, and what waits now."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    since: datetime
    until: datetime
    kept: bool = Field(description="Successes go into an archive. false: they leave no trace, and are not counted.")
    ended: int | None = Field(description="Done or given up.")
    done: int | None
    failed: int | None = Field(description="Given up.")
    success: float | None = Field(description="Done of all that ended, 0 to 1; null where nothing did.")
    ended_per_second: float | None
    more: bool = Field(
        description="Only the latest 20,000 ends were read; of tasks and services, those of all kinds and services."
    )
    run_seconds: Quantiles = Field(description="From the start of the successful attempt to the end.")
    age_seconds: Quantiles = Field(description="From the making to the successful end.")
    waiting: int = Field(
        description="What waits now, up to 100,000, without what is delayed; of jobs, in the first 500 pairs of "
        "queue and kind."
    )
    oldest_seconds: float | None = Field(description="For how long the oldest of them has waited.")


@router.get("/queues/{queue}/stats", tags=["queues"], summary="Get a queue's rates and times", name="stats")
@needs("read", reach="queue")
async def queue_stats(queue: Name, context: In, since: Since = None, until: Until = None) -> WorkStats:
    """Accepted messages are counted where the queue keeps `history`; dead ones always."""
    return await _stats("queue", queue_name(queue), since, until, context)


@router.get("/task-kinds/{kind}/stats", tags=["tasks"], summary="Get rates and times of a kind of tasks", name="stats")
@needs("read", reach="route")
async def task_stats(request: Request, kind: Name, context: In, since: Since = None, until: Until = None) -> WorkStats:
    """Finished tasks are counted where the kind keeps a record; dead ones always."""
    require_kinds(request, [queue_name(kind, "kind")])
    return await _stats("task", kind, since, until, context)


@router.get("/job-kinds/{kind}/stats", tags=["jobs"], summary="Get rates and times of a kind of jobs", name="stats")
@needs("read", reach="route")
async def job_stats(request: Request, kind: Name, context: In, since: Since = None, until: Until = None) -> WorkStats:
    """Completed and discarded jobs; cancelled ones are left out."""
    require_kinds(request, [queue_name(kind, "kind")])
    return await _stats("job", kind, since, until, context)


@router.get("/services/{name}/stats", tags=["services"], summary="Get a service's rates and times", name="stats")
@needs("call", "read", reach="service", parameter="name")
async def service_stats(name: Name, context: In, since: Since = None, until: Until = None) -> WorkStats:
    """Requests that were closed; `age_seconds` is from the request to its answer."""
    return await _stats("service", service_name(name), since, until, context)


answer_below("/tasks/kinds", router, "/task-kinds")
answer_below("/jobs/kinds", router, "/job-kinds")


async def _stats(
    kind: Kind, name: str, since: datetime | None, until: datetime | None, context: Context
) -> WorkStats:  # fmt: skip
    now = await context.database.fetchval("diagnosis.now")
    start, end = span_of(since, until, now)
    row = await context.database.fetchrow(_STATEMENTS[kind], name, start, end, _ENDED_MAX)
    assert row is not None, "an aggregate has one row"
    done, failed = row["done"], row["dead"]
    ended = done + failed
    counts: dict[str, Any] = dict.fromkeys(("ended", "done", "success", "ended_per_second"))
    if row["kept"]:
        counts = {
            "ended": ended, "done": done, "success": done / ended if ended else None,
            "ended_per_second": rate(ended, start, end, now),
        }  # fmt: skip
    return WorkStats(
        since=start, until=end, kept=row["kept"], failed=failed, more=row["more"], waiting=row["waiting"],
        run_seconds=_quantiles(row["run"]), age_seconds=_quantiles(row["age"]),
        oldest_seconds=(row["at"] - row["oldest_at"]).total_seconds() if row["oldest_at"] else None, **counts,
    )  # fmt: skip


def _quantiles(found: Sequence[float | None] | None) -> Quantiles:
    p50, p95, p99 = found or (None, None, None)
    return Quantiles(p50=p50, p95=p95, p99=p99)
