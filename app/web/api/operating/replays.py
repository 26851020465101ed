"""/replays: events or dead letters sent again, and other acts on everything that matches, in the background."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from fastapi import Path, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.dependency import In
from app.web.api.operating.incidents import incident_number, known_incident
from app.web.api.route.actor import Reason, Reasoned, actor_of
from app.web.api.route.context import Context
from app.web.api.route.event_ids import event_number
from app.web.api.route.known_subscription import no_such_subscription
from app.web.api.route.moment import ZonedMoment
from app.web.api.route.paging import Paged
from app.web.api.route.refusals import OPTIONAL_BODY, refusals
from app.web.api.route.strict_route import strict_router
from app.web.authentication import require_topic
from app.web.problem import Problem
from app.web.scopes import needs
from db.pool import Row
from event.identity import format_event_id

__all__ = ["OpenJobState", "ReplayIn", "begin_replay", "count_replay", "router"]

router = strict_router("/replays", "replays")
ReplayId = Annotated[str, Path(pattern=r"^replay_[0-9]{1,18}$", examples=["replay_3"])]
EventId = Annotated[str, Field(max_length=60)]
_COUNTED_MAX = 100_000
_LARGEST = 2**63 - 1
_MISSING: Final = "There is no such replay."
_BODY = (*OPTIONAL_BODY, "outcome-unknown")
_EXAMPLE: dict[str, Any] = {
    "id": "replay_3",
    "state": "running",
    "source": "dead_letters",
    "act": "send",
    "job_kind": None,
    "job_state": None,
    "incident_id": None,
    "subscription_id": "sub_3f1c0a9be2d45c7780aa",
    "topic": None,
    "kinds": ["exhausted"],
    "statuses": None,
    "since": "2026-01-15T00:00:00Z",
    "until": None,
    "rate_per_second": 100,
    "actor": "alice@127.0.0.1",
    "reason": "the receiver is back",
    "created_at": "2026-01-15T09:40:00Z",
    "updated_at": "2026-01-15T09:40:02Z",
    "progress": 0.4,
    "examined": 400,
    "replayed": 200,
    "erased": 0,
    "seconds_left": 3.0,
    "is_held": None,
    "why": None,
}


Source = Literal["events", "dead_letters", "deliveries", "jobs"]
OpenJobState = Literal["scheduled", "available", "assigned", "running", "review", "retryable"]
Act = Literal["send", "purge", "give_up", "cancel"]
_ACTS: Final[Mapping[str, tuple[str, ...]]] = {
    "events": ("send",), "dead_letters": ("send", "purge"), "deliveries": ("give_up",), "jobs": ("cancel",),
}  # fmt: skip


class ReplayIn(BaseModel):
    """Selects what to send again, to delete, to give up or to cancel. All given conditions must hold."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"source": "dead_letters", "since": "2026-01-15T00:00:00Z", "dry_run": True}]},
    )

    source: Source = Field(
        description="events: every event of the subscription's topic, delivered before or not. dead_letters: only "
        "deliveries that were given up. deliveries: open ones. jobs: those that have not ended."
    )
    act: Act = Field(
        "send",
        description="send: events or dead letters again. purge: delete dead letters. give_up: make open deliveries "
        "dead letters. cancel: jobs, as `POST /jobs/{id}/cancel` does.",
    )
    job_kind: str | None = Field(None, max_length=200, pattern=r"^[ -~]+$", description="Only jobs of this kind.")
    job_state: OpenJobState | None = Field(None, description="Only jobs in this state.")
    incident_id: str | None = Field(
        None, pattern=r"^inc_[0-9]{1,18}$", description="Only dead letters of this incident."
    )
    subscription_id: str | None = Field(
        None,
        max_length=60,
        pattern=r"^[ -~]*$",
        description="Required for events; null: all subscriptions.",
    )
    topic: str | None = Field(
        None, max_length=249, pattern=r"^[A-Za-z0-9._-]+$", description="Only events of this topic."
    )
    event_ids: Annotated[list[EventId], Field(min_length=1, max_length=1000)] | None = None
    since: ZonedMoment | None = Field(None, description="Accepted, or created, at or after this moment.")
    until: ZonedMoment | None = Field(None, description="Accepted, or created, before this moment.")
    kinds: list[Literal["exhausted", "too_late", "declined", "aborted", "given_up", "internal", "gone"]] | None = Field(
        None, min_length=1, description="Kinds of dead letters."
    )
    statuses: Annotated[list[Annotated[int, Field(ge=100, le=599)]], Field(min_length=1, max_length=100)] | None = (
        Field(None, description="Status of the last answer, for dead letters.")
    )
    rate_per_second: int | None = Field(
        None, ge=1, le=100_000, description="Deliveries per second; null: its own pace, with room for live events."
    )
    reason: str | None = Field(None, max_length=500, description="The reason, for the audit trail.")
    dry_run: bool = Field(False, description="Only count what matches.")
    count_max: int = Field(_COUNTED_MAX, ge=1, le=_COUNTED_MAX, description="A dry run counts up to this number.")


class ReplayOut(BaseModel):
    """A replay and its progress."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    id: str
    state: Literal["running", "paused", "done", "cancelled"]
    source: Literal["events", "dead_letters", "deliveries", "jobs", "lake"] = Field(
        description="As in the request; `lake`: a run of `hookwire pipeline backfill`, which that command carries on."
    )
    act: Act
    job_kind: str | None
    job_state: str | None
    incident_id: str | None
    subscription_id: str | None
    topic: str | None
    kinds: list[str] | None
    statuses: list[int] | None
    since: datetime | None
    until: datetime | None
    rate_per_second: int | None
    actor: str
    reason: str | None
    created_at: datetime
    updated_at: datetime
    progress: float = Field(description="From 0 to 1: the part of the range that is done.")
    examined: int
    replayed: int = Field(
        description="Deliveries made, dead letters deleted, deliveries given up or jobs cancelled. Open deliveries are "
        "not made twice."
    )
    erased: int = Field(description="Deliveries not made, because the contents of their event were erased.")
    seconds_left: float | None = Field(
        description="A forecast: at the rate so far it ends in so many seconds. Null before the first step, and "
        "when it does not run, or no process carries it on."
    )
    is_held: bool | None = Field(
        description="Of the source `lake`: whether a process carries it on. If none does, the state `running` says "
        "only that it may be resumed, by `hookwire pipeline backfill --resume`. The hub carries on those of other "
        "sources: null."
    )
    why: str | None = Field(description="Of the source `lake`: why it stopped, unless a person paused it; else null.")


class DryRunOut(BaseModel):
    """The result of a dry run."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "dry_run": True,
                    "records": 200,
                    "erased": 0,
                    "more": False,
                    "seconds_min": 2.0,
                    "oldest": "evt_k3v7q2ha_42",
                    "newest": "evt_k3v7q2ha_977",
                }
            ]
        }
    )

    dry_run: Literal[True]
    records: int
    erased: int = Field(description="Records left out, because the contents of their event were erased.")
    more: bool = Field(description="The count stopped there; there are more.")
    seconds_min: float | None = Field(
        description="A forecast: with this `rate_per_second` it takes at least so many seconds. Null without a rate."
    )
    oldest: str | None
    newest: str | None


class ReplayPage(BaseModel):
    """A page of replays, newest first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_EXAMPLE], "next_cursor": None}]})

    items: list[ReplayOut]
    next_cursor: str | None


def _out(row: Row) -> ReplayOut:
    values = {**row, "id": f"replay_{row['id']}", "since": row["since_at"], "until": row["until_at"]}
    incident = f"inc_{row['incident_id']}" if row["incident_id"] is not None else None
    return ReplayOut.model_validate(values | {"incident_id": incident, "seconds_left": _seconds_left(row)})


def _seconds_left(row: Row) -> float | None:
    """Return the forecast of a running replay: the rest of its range at the rate so far."""
    took = (row["updated_at"] - row["created_at"]).total_seconds()
    if row["state"] != "running" or row["is_held"] is False or not row["progress"] or took <= 0:
        return None
    return round(float(took * (1 - row["progress"]) / row["progress"]), 1)


def _number(replay: str) -> int:
    return int(replay.removeprefix("replay_"))


@router.post(
    "",
    status_code=201,
    response_model=ReplayOut,
    summary="Send again, delete, give up or cancel everything that matches",
    responses={200: {"model": DryRunOut, "description": "A dry run."}, **refusals("not-found", *_BODY)},
)
@needs("operate", instead="To send its events again, use POST /subscriptions/{id}/replay.")
async def create(body: ReplayIn, request: Request, response: Response, context: In) -> ReplayOut | Response:
    """Starts at once, in the background. Deliveries are marked `hookwire-replay: true` and have a new schedule. An
    ordered subscription gets them after later events. What is being sent is not given up.
    """
    if body.incident_id is not None:
        await known_incident(request, body.incident_id, context)
    if body.dry_run:
        return JSONResponse((await count_replay(body, context)).model_dump())
    number = await begin_replay(body, request, context)
    response.headers["Location"] = f"/replays/replay_{number}"
    return await _get(number, context)


async def begin_replay(body: ReplayIn, request: Request, context: Context) -> int:
    """Start it in the background, with its audit entry; return its number. Raise ``Problem`` for a wrong choice."""
    selection = await _selection(body, context)
    number: int = await context.database.fetchval(
        "replay.create", *selection, body.rate_per_second, actor_of(request), body.reason, body.act, body.job_kind,
        body.job_state, _incident(body),
    )  # fmt: skip
    return number


async def _selection(body: ReplayIn, context: Context) -> list[object]:
    """Return the first nine parameters of ``replay.create`` and ``replay.count``."""
    _check(body)
    subscription = None
    if body.subscription_id is not None:
        row = await context.subscriptions.get(body.subscription_id)
        if row is None:
            raise no_such_subscription("subscription_id")
        subscription = row["id"]
    elif body.source == "events":
        raise Problem("invalid-parameter", "Name the subscription to send events to.", parameter="subscription_id")
    numbers = [event_number(event, context.incarnation) for event in body.event_ids] if body.event_ids else None
    return [
        "default",
        body.source,
        subscription,
        body.topic,
        body.kinds,
        body.statuses,
        numbers,
        body.since,
        body.until,
    ]


def _check(body: ReplayIn) -> None:
    """Raise ``Problem`` where the members do not belong together."""
    if body.act not in _ACTS[body.source]:
        acts = " or ".join(_ACTS[body.source])
        raise Problem("invalid-parameter", f"With the source {body.source} the act is {acts}.", parameter="act")
    if body.source != "dead_letters" and (body.kinds or body.statuses):
        raise Problem("invalid-parameter", "kinds and statuses choose among dead letters.", parameter="source")
    if body.source != "dead_letters" and body.incident_id:
        raise Problem("invalid-parameter", "incident_id chooses among dead letters.", parameter="source")
    if body.source != "jobs" and (body.job_kind or body.job_state):
        raise Problem("invalid-parameter", "job_kind and job_state choose among jobs.", parameter="source")
    if body.source == "jobs" and (body.subscription_id or body.topic or body.event_ids):
        raise Problem("invalid-parameter", "Jobs have no subscription, topic or event.", parameter="source")


def _incident(body: ReplayIn) -> int | None:
    return None if body.incident_id is None else incident_number(body.incident_id)


async def count_replay(body: ReplayIn, context: Context) -> DryRunOut:
    """Count what it would send, delete, give up or cancel. Raise ``Problem`` for a wrong choice."""
    selection = await _selection(body, context)
    tenant, _, subscription, topic, kinds, statuses, events, since, until = selection
    asked: dict[str, tuple[str, list[object]]] = {
        "send": ("replay.count", selection),
        "purge": ("bulk.count_dead", [tenant, subscription, topic, kinds, statuses, events, since, until]),
        "give_up": ("bulk.count_open", [tenant, subscription, topic, events, since, until]),
        "cancel": ("bulk.count_jobs", [tenant, body.job_kind, body.job_state, since, until]),
    }
    statement, arguments = asked[body.act]
    of_incident = [_incident(body)] if body.source in ("events", "dead_letters") else []
    [row] = await context.database.fetch_filtered(statement, *arguments, body.count_max + 1, *of_incident)
    ends = [format_event_id(context.incarnation, n) if n is not None else None for n in (row["oldest"], row["newest"])]
    more = row["counted"] > body.count_max
    records = row["records"] - (more and row["records"] > 0)
    forecast = round(records / body.rate_per_second, 1) if body.rate_per_second else None
    return DryRunOut(
        dry_run=True, records=records, erased=row["erased"], more=more, seconds_min=forecast, oldest=ends[0],
        newest=ends[1],
    )  # fmt: skip


async def _get(number: int, context: Context) -> ReplayOut:
    row = await context.database.fetchrow("replay.list", "default", number, _LARGEST, 1)
    if row is None:
        raise Problem("not-found", _MISSING)
    return _out(row)


@router.get("", summary="List replays", responses=refusals("invalid-cursor", "invalid-parameter"))
@needs("read", reach="route")
async def list_replays(context: In, paging: Paged) -> ReplayPage:
    """Newest first; `Link: rel="next"` and `next_cursor` lead to the next page.

    A key for some topics gets the replays of a subscription, or without one of a topic, within these. A page may then
    hold fewer items, or none.
    """

    async def read(before: Sequence[Any], most: int) -> tuple[Sequence[Row], list[str | int] | None]:
        rows = await context.database.fetch("replay.list", "default", None, before[0], most + 1)
        return rows[:most], [rows[most - 1]["id"]] if len(rows) > most else None

    rows, next_cursor = await paging.reached(
        paging.after(_LARGEST), read, lambda row: row["pattern"], lambda row: [row["id"]]
    )
    return ReplayPage(items=[_out(row) for row in rows], next_cursor=next_cursor)


@router.get("/{replay}", summary="Get the progress of a replay", responses=refusals("not-found", "invalid-parameter"))
@needs("read", reach="route")
async def get(replay: ReplayId, request: Request, context: In) -> ReplayOut:
    """Repeat the request until its state is `done`."""
    row = await context.database.fetchrow("replay.list", "default", _number(replay), _LARGEST, 1)
    if row is None:
        raise Problem("not-found", _MISSING)
    require_topic(request, row["pattern"], hidden=_MISSING)
    return _out(row)


@router.post("/{replay}/pause", summary="Pause a replay", responses=refusals("not-found", "replay-over", *_BODY))
@needs("operate")
async def pause(replay: ReplayId, body: Reasoned, request: Request, context: In) -> ReplayOut:
    """Deliveries that it has made are still sent. It can be resumed."""
    return await _turn(replay, ["running", "paused"], "paused", body, request, context)


@router.post("/{replay}/resume", summary="Resume a replay", responses=refusals("not-found", "replay-over", *_BODY))
@needs("operate")
async def resume(replay: ReplayId, body: Reasoned, request: Request, context: In) -> ReplayOut:
    """Continues where it stopped. One with the source `lake` does so if `is_held`; otherwise run
    `hookwire pipeline backfill --resume`.
    """
    return await _turn(replay, ["running", "paused"], "running", body, request, context)


@router.post("/{replay}/cancel", summary="Cancel a replay", responses=refusals("not-found", "replay-over", *_BODY))
@needs("operate")
async def cancel(replay: ReplayId, body: Reasoned, request: Request, context: In) -> ReplayOut:
    """Stops it for good. Deliveries that it has made are still sent."""
    return await _turn(replay, ["running", "paused", "cancelled"], "cancelled", body, request, context)


async def _turn(
    replay: str, states: list[str], state: str, body: Reason, request: Request, context: Context
) -> ReplayOut:
    number = _number(replay)
    verb = {"paused": "replay.pause", "running": "replay.resume", "cancelled": "replay.cancel"}[state]
    done = await context.database.fetchval(
        "replay.set_state", "default", number, states, state, actor_of(request), verb, body.reason
    )
    now = await _get(number, context)
    if done is None:
        raise Problem("replay-over", f"It is {now.state}.")
    return now
