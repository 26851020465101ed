"""/tasks: transactional tasks that wait, run or died. /task-kinds: the settings of each kind."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.dependency import In
from app.web.api.route.actor import Reason, Reasoned, actor_of
from app.web.api.route.answers import row_bytes
from app.web.api.route.context import Context
from app.web.api.route.paging import Paged
from app.web.api.route.refusals import BODY, refusals
from app.web.api.route.strict_route import NO_NUL, strict_router
from app.web.api.work.former_name import answer_below
from app.web.api.work.queue_refusal import queue_name
from app.web.authentication import may_reach_kind, require_every_kind, shows_payloads
from app.web.problem import Problem
from app.web.scopes import needs
from db.pool import Row

__all__ = ["kinds", "router"]

router = strict_router("/tasks", "tasks", "invalid-parameter")
kinds = strict_router("", "tasks", "invalid-parameter")
_LARGEST = 2**63 - 1
TaskId = Annotated[str, Path(min_length=1, max_length=200, pattern=NO_NUL)]
Kind = Annotated[str | None, Query(max_length=200, pattern=NO_NUL)]


_TASK: dict[str, Any] = {
    "id": "0b6f3f0e-95a5-4e5d-8a39-3f4c1f0f6a11", "kind": "mail.send", "state": "waiting",
    "description": '{"order": 4711}', "created_at": "2026-01-15T09:31:07Z", "start_time": None, "due_at": None,
    "attempts": 0, "worker": None, "leased_until": None, "last_error": None,
}  # fmt: skip


class TaskOut(BaseModel):
    """A task that is not finished."""

    model_config = ConfigDict(json_schema_extra={"examples": [_TASK]})

    id: str
    kind: str
    state: Literal["waiting", "delayed", "started"]
    description: str | None = Field(description="Null for a key without the scope `payloads`.")
    created_at: datetime
    start_time: datetime | None
    due_at: datetime | None = Field(description="Earliest start; null: at once.")
    attempts: int
    worker: str | None
    leased_until: datetime | None = Field(
        validation_alias="lease_until", description="A started task counts as crashed from then on."
    )
    last_error: str | None


_DEAD: dict[str, Any] = {
    "number": 7, "id": "0b6f3f0e-95a5-4e5d-8a39-3f4c1f0f6a11", "kind": "mail.send", "description": '{"order": 4711}',
    "reason": "exit 1", "attempts": 5, "worker": "host-17", "created_at": "2026-01-15T09:31:07Z",
    "died_at": "2026-01-15T10:31:07Z",
}  # fmt: skip
_COUNTS: dict[str, Any] = {"waiting": 1, "started": 0, "delayed": 0, "dead": 0}


class TaskPage(BaseModel):
    """A page of tasks, newest first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_TASK], "next_cursor": None}]})

    items: list[TaskOut]
    next_cursor: str | None


class TaskCounts(BaseModel):
    """Numbers of tasks."""

    model_config = ConfigDict(json_schema_extra={"examples": [_COUNTS]})

    waiting: int = Field(description="Counted up to 100,000.")
    started: int
    delayed: int
    dead: int


class DeadTaskOut(BaseModel):
    """A task that was given up."""

    number: int
    id: str
    kind: str
    description: str | None
    reason: str
    attempts: int
    worker: str | None
    created_at: datetime
    died_at: datetime


class DeadTaskPage(BaseModel):
    """A page of dead tasks, oldest first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_DEAD], "next_cursor": None}]})

    items: list[DeadTaskOut]
    next_cursor: str | None


class NumbersIn(Reason):
    """Selects dead tasks; null: the oldest 500."""

    numbers: list[Annotated[int, Field(ge=1, le=_LARGEST)]] | None = Field(None, min_length=1, max_length=500)


class NumbersOut(BaseModel):
    """The numbers that existed."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"numbers": [7]}]})

    numbers: list[int]


class KindIn(BaseModel):
    """Settings for tasks of a kind; null: the settings of all kinds, which are the kind `*`."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"on_crash": "abandon", "crash_seconds": 600}]}
    )

    on_crash: Literal["retry", "compensate", "abandon"] | None = None
    compensation_kind: str | None = Field(None, max_length=200, description="null: the kind and `.compensate`.")
    notify: Literal["nobody", "notify", "relay", "enqueuer"] | None = Field(
        None,
        description="How workers are notified. `*` and null: by the relay where AMQP is configured, else not at all.",
    )
    lookup_seconds: float | None = Field(
        None, ge=0.01, le=60, description="Pause between two queries for a missing row."
    )
    giveup_seconds: float | None = Field(
        None, ge=0, le=600, description="A notification is dropped if its row is still missing after this time."
    )
    cleanup_seconds: float | None = Field(
        None, ge=0.1, le=86_400, description="Pause between notifications of one task."
    )
    crash_seconds: float | None = Field(
        None, ge=0.1, le=2_592_000, description="A task that runs for longer counts as crashed."
    )
    attempts_max: int | None = Field(None, ge=1, le=1_000_000)
    age_seconds_max: float | None = Field(
        None, gt=0, le=315_360_000, description="A task is dead when both limits are passed."
    )
    backoff_seconds_min: float | None = Field(None, ge=0, le=86_400)
    backoff_seconds_max: float | None = Field(None, ge=0, le=2_592_000)
    doublings_max: int | None = Field(None, ge=0, le=60)
    keeps_record: bool | None = Field(None, description="Finished tasks go into the archive.")
    is_unique: bool | None = Field(None, description="Two tasks with the same kind and arguments are one task.")


_KIND = {**dict.fromkeys(KindIn.model_fields), "kind": "mail.send", "on_crash": "abandon", "crash_seconds": 600.0}


class KindOut(KindIn):
    """The settings of a kind."""

    model_config = ConfigDict(extra="ignore", json_schema_extra={"examples": [_KIND]})

    kind: str


class KindList(BaseModel):
    """The kinds that have settings, by name."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_KIND]}]})

    items: list[KindOut]


@router.get("", summary="List tasks", response_model=TaskPage, responses=refusals("invalid-cursor"))
@needs("read", reach="route")
async def list_tasks(
    request: Request,
    context: In,
    paging: Paged,
    kind: Kind = None,
    state: Annotated[Literal["waiting", "delayed", "started"] | None, Query()] = None,
) -> Response:
    """Newest first. A page ends before its limit if its descriptions are large."""
    asked, shown = ("task.list", *paging.after(_LARGEST), kind, state, paging.limit + 1), shows_payloads(request)
    return await context.answers.page(
        paging, lambda room: context.database.fetch_filtered(*asked, room), lambda row: [row["seq"]],
        lambda row: _task_out(row, shown=shown), lambda row: may_reach_kind(request, row["kind"]),
    )  # fmt: skip


@router.get("/counts", summary="Count tasks")
@needs("read", reach="route")
async def counts(request: Request, context: In) -> TaskCounts:
    """Counts by state."""
    require_every_kind(request)
    row = await context.database.fetchrow("task.counts")
    assert row is not None, "counts are one row"
    return TaskCounts.model_validate(dict(row))


@router.get("/dead", summary="List dead tasks", response_model=DeadTaskPage, responses=refusals("invalid-cursor"))
@needs("read", reach="route")
async def list_dead(request: Request, context: In, paging: Paged, kind: Kind = None) -> Response:
    """Oldest first. A page ends before its limit if its descriptions are large."""
    asked, shown = ("task.dead", *paging.after(0), kind, paging.limit + 1), shows_payloads(request)
    return await context.answers.page(
        paging, lambda room: context.database.fetch_filtered(*asked, room), lambda row: [row["number"]],
        lambda row: _dead_out(row, shown=shown), lambda row: may_reach_kind(request, row["kind"]),
    )  # fmt: skip


@router.post("/dead/redrive", summary="Return dead tasks", responses=refusals(*BODY))
@needs("operate", reach="route")
async def redrive(request: Request, body: NumbersIn, context: In) -> NumbersOut:
    """Returns them under their ids and counts their attempts anew. A task whose id is live again stays dead."""
    numbers = await _reached(request, body.numbers, context)
    rows = await context.database.fetch("task.redrive", numbers, actor_of(request), body.reason)
    return NumbersOut(numbers=[row["number"] for row in rows])


@router.post("/dead/purge", summary="Delete dead tasks", responses=refusals(*BODY))
@needs("operate", reach="route")
async def purge(request: Request, body: NumbersIn, context: In) -> NumbersOut:
    """At most 500 at a time."""
    numbers = await _reached(request, body.numbers, context)
    rows = await context.database.fetch("task.purge_dead", numbers, actor_of(request), body.reason)
    return NumbersOut(numbers=[row["number"] for row in rows])


@kinds.get("/task-kinds", summary="List the settings of kinds")
@needs("read", reach="route")
async def list_kinds(request: Request, context: In) -> KindList:
    """`*` has the settings of all kinds."""
    rows = await context.database.fetch("task.kinds")
    mine = [dict(row) for row in rows if row["kind"] == "*" or may_reach_kind(request, row["kind"])]
    return KindList.model_validate({"items": mine})


@kinds.put("/task-kinds/{kind}", summary="Set how tasks of a kind are treated", responses=refusals(*BODY))
@needs("admin", reach="route")
async def put_kind(request: Request, kind: str, body: KindIn, context: In) -> KindOut:
    """Applies at once, without a restart. `*` needs all but `notify`, `compensation_kind` and `age_seconds_max`."""
    if not may_reach_kind(request, "#" if kind == "*" else kind):
        require_every_kind(request)
    needed = KindIn.model_fields.keys() - {"notify", "compensation_kind", "age_seconds_max"}
    if kind == "*" and (missing := sorted(name for name in needed if getattr(body, name) is None)):
        raise Problem("missing-parameter", f"* needs a value of {', '.join(missing)}.", parameter=missing[0])
    name = kind if kind == "*" else queue_name(kind, "kind")
    if body.compensation_kind is not None:
        queue_name(body.compensation_kind, "compensation_kind")
    values = [getattr(body, field) for field in KindIn.model_fields]
    row = await context.database.fetchrow("task.put_kind", name, *values)
    assert row is not None, "INSERT ... RETURNING returns its row"
    return KindOut.model_validate(dict(row))


@router.get("/{task_id}", summary="Get an unfinished task", response_model=TaskOut, responses=refusals("not-found"))
@needs("read", reach="route")
async def get(request: Request, task_id: TaskId, context: In) -> Response:
    """A finished task is deleted, or in the archive."""
    shown = shows_payloads(request)
    async with context.answers.share() as share:
        rows = await share.fetch(lambda _: context.database.fetch("task.get", task_id))
        if not rows or not may_reach_kind(request, rows[0]["kind"]):
            raise Problem("not-found", "There is no such task; it may be finished.")
        return await share.one(lambda: _task_out(rows[0], shown=shown), row_bytes(rows[0]))


@router.post("/{task_id}/cancel", status_code=204, summary="Cancel a task that no worker has begun",
             responses=refusals(*BODY, "not-found"))  # fmt: skip
@needs("operate", reach="route")
async def cancel(request: Request, task_id: TaskId, body: Reasoned, context: In) -> None:
    """Deletes the task and adds an audit entry."""
    row = await context.database.fetchrow("task.get", task_id)
    is_mine = row is not None and may_reach_kind(request, row["kind"])
    if not is_mine or not await context.database.fetch("task.cancel", task_id, actor_of(request), body.reason):
        raise Problem("not-found", "No such task waits; it may have been begun.")


async def _reached(request: Request, numbers: list[int] | None, context: Context) -> list[int]:
    """Return the dead tasks that the key of this request permits; None: of the oldest 500."""
    rows = await context.database.fetch("task.dead_kinds", numbers)
    return [row["number"] for row in rows if may_reach_kind(request, row["kind"])]


def _task_out(row: Row, *, shown: bool) -> dict[str, Any]:
    names = ("id", "kind", "created_at", "start_time", "due_at", "attempts", "worker", "last_error")
    return {
        **{name: row[name] for name in names},
        "state": "started" if row["start_time"] else "delayed" if row["due_at"] else "waiting",
        "leased_until": row["lease_until"],
        "description": row["description"] if shown else None,
    }


def _dead_out(row: Row, *, shown: bool) -> dict[str, Any]:
    names = ("number", "id", "kind", "reason", "attempts", "worker", "created_at", "died_at")
    return {**{name: row[name] for name in names}, "description": row["description"] if shown else None}


answer_below("/tasks/kinds", kinds, "/task-kinds")
