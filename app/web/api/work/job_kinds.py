"""/job-kinds, /job-schedules, /jobs/statistics: settings of kinds, schedules that enqueue jobs, counts of jobs.

A kind or a schedule has an address that no id of a job can have. The former addresses below ``/jobs`` still answer.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import Depends, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from app.web.api.dependency import In
from app.web.api.route.actor import Reason, Reasoned
from app.web.api.route.context import Context
from app.web.api.route.database_refusal import job_refusals
from app.web.api.route.effect import tell_without_effect
from app.web.api.route.paging import Paging
from app.web.api.route.refusals import BODY, refusals
from app.web.api.route.strict_route import NO_NUL, strict_router
from app.web.api.work.former_name import answer_below
from app.web.api.work.job_contract import JobIn
from app.web.api.work.job_refusal import kinds_of, person_of, require_kinds
from app.web.api.work.queue_refusal import queue_name
from app.web.authentication import may_reach_kind, require_every_kind, shows_payloads
from app.web.problem import Problem
from app.web.scopes import needs
from db.pool import Row
from jobs.jobs.cron import Cron, CronError

__all__ = ["router"]

router = strict_router("", "jobs", "invalid-parameter")
_Event = Literal["scheduled", "available", "assigned", "running", "review", "retryable", "completed", "cancelled",
                 "discarded", "progress", "due"]  # fmt: skip
_NEEDED = frozenset(
    ("automation", "machine_percent", "needs_review", "reviewer_differs", "attempts_max", "run_seconds",
     "lease_seconds", "backoff_seconds_min", "backoff_seconds_max", "doublings_max", "ageing_seconds", "key_burst",
     "events", "retention_days")
)  # fmt: skip


class JobKindIn(BaseModel):
    """The settings of a kind of jobs. For null, the setting of the kind `*` holds, which stands for all kinds."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"automation": "mostly", "machine_percent": 20, "needs_review": True}]},
    )

    automation: Literal["manual", "assisted", "mostly", "automatic"] | None = Field(
        None,
        description="`manual`: people do the jobs. `assisted`: machines do them, people review. `mostly`: machines get "
        "a share, people the rest and all failures. `automatic`: machines do them.",
    )
    machine_percent: int | None = Field(None, ge=0, le=100, description="For `mostly`: the share of machines.")
    machine_rule: dict[str, JsonValue] | None = Field(
        None, description="For `mostly`: jobs whose `args` contain this go to machines."
    )
    needs_review: bool | None = None
    reviewer_differs: bool | None = Field(None, description="The reviewer is not the performer.")
    escalate_to: str | None = Field(None, min_length=1, max_length=200)
    attempts_max: int | None = Field(None, ge=1, le=1_000_000)
    run_seconds: float | None = Field(None, ge=0.05, le=2_592_000, description="Limit of one attempt.")
    deadline_seconds: float | None = Field(
        None, ge=0.05, le=315_360_000, description="Limit of the whole job, counted from its request."
    )
    lease_seconds: float | None = Field(None, ge=0.05, le=43_200)
    backoff_seconds_min: float | None = Field(None, ge=0, le=86_400)
    backoff_seconds_max: float | None = Field(None, ge=0, le=2_592_000)
    doublings_max: int | None = Field(None, ge=0, le=60)
    ageing_seconds: float | None = Field(
        None, ge=0.001, le=86_400, description="Waiting for this time raises the priority by one."
    )
    running_max: int | None = Field(None, ge=1, le=1_000_000, description="Jobs that run at once, on all workers.")
    key_running_max: int | None = Field(None, ge=1, le=1_000_000, description="Jobs of one key that run at once.")
    key_rate_per_second: float | None = Field(None, ge=0.000001, le=1_000_000)
    key_burst: int | None = Field(None, ge=1, le=1_000_000)
    events: list[_Event] | None = Field(None, max_length=11, description="States that are published.")
    retention_days: int | None = Field(None, ge=0, le=3660, description="Ended jobs are kept this long; 0: not kept.")


_KIND: dict[str, Any] = {
    **dict.fromkeys(JobKindIn.model_fields), "kind": "invoice.check", "automation": "mostly", "machine_percent": 20,
    "needs_review": True, "is_paused": False,
}  # fmt: skip


class JobKindOut(JobKindIn):
    """The settings of a kind."""

    model_config = ConfigDict(extra="ignore", json_schema_extra={"examples": [_KIND]})

    kind: str
    is_paused: bool


class JobKindList(BaseModel):
    """The kinds that have settings, by name."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_KIND], "next_cursor": None}]})

    items: list[JobKindOut]
    next_cursor: str | None


class ScheduleIn(BaseModel):
    """A job that is enqueued at the times of a cron expression."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"cron": "30 6 * * mon-fri", "zone": "Europe/Berlin", "job": {"kind": "report"}}]
        },
    )

    cron: str = Field(max_length=200, description="Minute, hour, day, month, day of the week.")
    zone: str = Field("UTC", max_length=80)
    missed: Literal["skip", "coalesce", "catch_up"] = Field(
        "coalesce", description="Fire none, one or all (100 at a time) of the ticks that were due while no hub ran."
    )
    job: JobIn
    is_paused: bool = False


_SCHEDULE: dict[str, Any] = {
    "name": "morning-report", "cron": "30 6 * * mon-fri", "zone": "Europe/Berlin", "missed": "coalesce",
    "job": {"kind": "report"}, "is_paused": False, "next_at": "2026-01-16T05:30:00Z",
    "last_at": "2026-01-15T05:30:00Z",
}  # fmt: skip


class ScheduleOut(BaseModel):
    """A schedule."""

    model_config = ConfigDict(json_schema_extra={"examples": [_SCHEDULE]})

    name: str
    cron: str
    zone: str
    missed: Literal["skip", "coalesce", "catch_up"]
    job: dict[str, JsonValue]
    is_paused: bool
    next_at: datetime
    last_at: datetime | None


class ScheduleList(BaseModel):
    """A page of schedules, by name."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_SCHEDULE], "next_cursor": None}]})

    items: list[ScheduleOut]
    next_cursor: str | None


class LiveOut(BaseModel):
    """Live jobs of a kind in one state."""

    kind: str
    state: str
    jobs: int
    oldest_at: datetime


class EndedOut(BaseModel):
    """Ended jobs of a kind, by the person or worker that did them. Seconds are averages."""

    kind: str
    state: str
    performer: str | None
    jobs: int
    wait_seconds: float | None
    run_seconds: float | None
    total_seconds: float | None


class StatisticsOut(BaseModel):
    """Counts of live and ended jobs."""

    model_config = ConfigDict(json_schema_extra={"examples": [{
        "live": [{"kind": "invoice.check", "state": "review", "jobs": 2, "oldest_at": "2026-01-15T09:31:07Z"}],
        "ended": [{"kind": "invoice.check", "state": "completed", "performer": "ada", "jobs": 7, "wait_seconds": None,
                   "run_seconds": None, "total_seconds": 5400.0}],
    }]})  # fmt: skip

    live: list[LiveOut]
    ended: list[EndedOut]


async def _paging(
    request: Request, response: Response, cursor: Annotated[str | None, Query(max_length=600)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 1000,
) -> Paging:  # fmt: skip
    return Paging(request, response, cursor, limit)


Paged = Annotated[Paging, Depends(_paging)]


@router.get("/job-kinds", summary="List the settings of kinds of jobs", response_model=JobKindList,
            responses=refusals("invalid-cursor"))  # fmt: skip
@needs("read", reach="route")
async def list_kinds(request: Request, context: In, paging: Paged) -> Response:
    """The kind `*` holds the settings for all kinds."""
    [after] = paging.after("")
    return await context.answers.page(
        paging, lambda room: context.database.fetch("job.kinds", after, paging.limit + 1, room),
        lambda row: [row["kind"]], lambda row: JobKindOut.model_validate(_kind_out(row)).model_dump(),
        lambda row: row["kind"] == "*" or may_reach_kind(request, row["kind"]),
    )  # fmt: skip


@router.put("/job-kinds/{kind}", summary="Set the settings of a kind of jobs", responses=refusals(*BODY))
@needs("admin", reach="route")
async def put_kind(request: Request, kind: str, body: JobKindIn, context: In) -> JobKindOut:
    """The settings hold at once, for waiting jobs too. For `*`, each setting with a default needs a value."""
    if kind == "*" and (missing := sorted(name for name in _NEEDED if getattr(body, name) is None)):
        raise Problem("missing-parameter", f"The kind * needs a value of {', '.join(missing)}.", parameter=missing[0])
    name = kind if kind == "*" else queue_name(kind, "kind")
    _require(request, name)
    settings = json.dumps(body.model_dump(mode="json", exclude_none=True))
    with job_refusals():
        row = await context.database.fetchrow("job.put_kind", name, settings, person_of(request))
    assert row is not None, "the function returns its row"
    return JobKindOut.model_validate(_kind_out(row))


@router.post(
    "/job-kinds/{kind}/pause", status_code=204, summary="Stop handing out jobs of a kind", responses=refusals(*BODY)
)
@needs("operate", reach="route")
async def pause_kind(request: Request, response: Response, kind: str, body: Reasoned, context: In) -> None:
    """Running jobs go on."""
    await _pause(request, response, kind, body, context, paused=True)


@router.post(
    "/job-kinds/{kind}/resume", status_code=204, summary="Hand out jobs of a kind again", responses=refusals(*BODY)
)
@needs("operate", reach="route")
async def resume_kind(request: Request, response: Response, kind: str, body: Reasoned, context: In) -> None:
    """The waiting jobs are handed out in their order."""
    await _pause(request, response, kind, body, context, paused=False)
    context.jobs.job_waiting.notify()


async def _pause(
    request: Request, response: Response, kind: str, body: Reason, context: Context, *, paused: bool
) -> None:
    _require(request, kind)
    asked = (queue_name(kind, "kind"), paused, person_of(request), body.reason)
    if not await context.database.fetchval("job.pause_kind", *asked):
        state = "paused already" if paused else "not paused"
        tell_without_effect(request, response, "pause" if paused else "resume", f"the kind {kind[:200]} was {state}")


@router.get(
    "/job-schedules", summary="List schedules", response_model=ScheduleList, responses=refusals("invalid-cursor")
)
@needs("read", reach="route")
async def list_schedules(request: Request, context: In, paging: Paged) -> Response:
    """The schedules are sorted by name. `args` is null for a key without the scope `payloads`."""
    [after] = paging.after("")
    shown = shows_payloads(request)
    return await context.answers.page(
        paging, lambda room: context.database.fetch("job.schedules", after, paging.limit + 1, room),
        lambda row: [row["name"]], lambda row: _listed_schedule(row, shown=shown),
        lambda row: may_reach_kind(request, row["kind"]),
    )  # fmt: skip


@router.put("/job-schedules/{name}", summary="Set a schedule", responses=refusals(*BODY, "unknown-job"))
@needs("admin", reach="route")
async def put_schedule(request: Request, name: str, body: ScheduleIn, context: In) -> ScheduleOut:
    """Each tick enqueues one job, regardless of the number of hubs. A changed schedule counts from now on."""
    try:
        next_at = Cron.parse(body.cron, body.zone).after(datetime.now(UTC))
    except CronError as error:
        raise Problem("invalid-parameter", f"cron: {error}", parameter="cron") from None
    require_kinds(request, kinds_of(body.job))
    name = queue_name(name, "name")
    await _require_schedule(request, name, context)
    job = json.dumps(body.job.model_dump(mode="json", exclude_none=True))
    with job_refusals():
        await context.database.fetchval("job.check", job)
    row = await context.database.fetchrow(
        "job.put_schedule", name, body.cron, body.zone, body.missed, job, body.is_paused, next_at, person_of(request),
    )  # fmt: skip
    assert row is not None, "INSERT ... RETURNING returns its row"
    return ScheduleOut.model_validate(_schedule_out(row))


@router.delete("/job-schedules/{name}", status_code=204, summary="Remove a schedule", responses=refusals("not-found"))
@needs("admin", reach="route")
async def remove_schedule(request: Request, name: Annotated[str, Path(pattern=NO_NUL)], context: In) -> None:
    """Jobs that the schedule has enqueued stay."""
    await _require_schedule(request, name, context)
    if not await context.database.fetch("job.remove_schedule", name, person_of(request)):
        raise Problem("not-found", f"There is no schedule {name[:80]}.")


@router.get("/jobs/statistics", summary="Count live jobs, and ended jobs by performer")
@needs("read", reach="route")
async def statistics(
    request: Request, context: In, days: Annotated[int, Query(ge=1, le=3660, description="For ended jobs.")] = 14
) -> StatisticsOut:
    """The count of live jobs stops at 100,000."""
    live = await context.database.fetch("job.live_counts")
    ended = await context.database.fetch("job.statistics", days)
    mine = {
        name: [row for row in rows if may_reach_kind(request, row["kind"])]
        for name, rows in (("live", live), ("ended", ended))
    }
    return StatisticsOut.model_validate({name: [dict(row) for row in rows] for name, rows in mine.items()})


def _require(request: Request, kind: str) -> None:
    """Raise a problem unless the key is for this kind; ``*`` stands for every kind."""
    if kind == "*":
        require_every_kind(request)
    else:
        require_kinds(request, [kind])


async def _require_schedule(request: Request, name: str, context: Context) -> None:
    """Raise a problem if there is a schedule of this name whose kind the key does not include."""
    kind = await context.database.fetchval("job.schedule_kind", name)
    if kind is not None:
        require_kinds(request, [kind])


def _kind_out(row: Row) -> dict[str, Any]:
    rule = row["machine_rule"]
    return {**row, "machine_rule": json.loads(rule) if rule is not None else None}


def _listed_schedule(row: Row, *, shown: bool) -> dict[str, Any]:
    schedule = _schedule_out(row)
    if not shown:
        schedule["job"] = {**schedule["job"], "args": None}
    return ScheduleOut.model_validate(schedule).model_dump()


def _schedule_out(row: Row) -> dict[str, Any]:
    return {**row, "job": json.loads(row["job"])}


answer_below("/jobs/kinds", router, "/job-kinds")
answer_below("/jobs/periodic", router, "/job-schedules")
