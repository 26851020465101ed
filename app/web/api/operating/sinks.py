"""/sinks: where events go from the outbox; a person pauses one, and resumes it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from fastapi import Path, Request
from pydantic import BaseModel, ConfigDict, Field

from app.verdict.facts import COUNTED_MAX
from app.web.api.dependency import In
from app.web.api.route.actor import Reasoned, actor_of
from app.web.api.route.context import Context
from app.web.api.route.paging import PagedFew
from app.web.api.route.refusals import ACT, refusals
from app.web.api.route.strict_route import strict_router
from app.web.problem import Problem
from app.web.scopes import needs
from db.pool import Row

__all__ = ["router"]

router = strict_router("/sinks", "sinks")
Sink = Annotated[str, Path(pattern=r"^[a-z]{1,20}$", examples=["kafka"])]
_SINK: dict[str, Any] = {
    "sink": "kafka", "configured": True, "paused": True, "paused_at": "2026-01-15T09:31:07.131002Z",
    "paused_by": "alice@127.0.0.1", "reason": "Kafka moves", "waiting": 620, "held": 0,
    "oldest_at": "2026-01-15T09:31:08.040302Z", "leader": "hub-1-7", "term": 3,
}  # fmt: skip
_FORECAST: dict[str, Any] = {
    "sink": "kafka", "events_per_hour": 600.0, "bytes_per_hour": 1_200_000.0, "waiting": 620, "event_days": 30,
    "source_backlog_max": None,
}  # fmt: skip
_LATEST: Final = 5_000
_HOUR_SECONDS: Final = 3_600
_VERB = refusals(*ACT)
_INSTEAD: Final = "Sinks are for keys of all topics. GET /events/{id} shows the sinks of an event."


class CarriedSink(BaseModel):
    """A sink, and what waits for it."""

    model_config = ConfigDict(json_schema_extra={"examples": [_SINK]})

    sink: Literal["kafka", "amqp", "webhooks", "jobs"]
    configured: bool = Field(description="A process of this installation carries records to it.")
    paused: bool = Field(description="A person has paused it: nothing is claimed for it.")
    paused_at: datetime | None
    paused_by: str | None = Field(description="The actor, as in the audit.")
    reason: str | None
    waiting: int | None = Field(
        description=f"Records that wait, counted up to {COUNTED_MAX:,}, with the verdict of `GET /status`. Null: the "
        "database could not count in time. A pause and a resume count nothing."
    )
    held: int | None = Field(description=f"Records behind a hold, counted up to {COUNTED_MAX:,}. Null as `waiting`.")
    oldest_at: datetime | None = Field(description="When the oldest that waits was accepted.")
    leader: str | None = Field(description="The process, or processes, that carry its records.")
    term: int | None


class SinkList(BaseModel):
    """A page of the sinks, by name."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_SINK], "next_cursor": None}]})

    items: list[CarriedSink]
    next_cursor: str | None


class SinkForecast(BaseModel):
    """What a pause would leave waiting."""

    model_config = ConfigDict(json_schema_extra={"examples": [_FORECAST]})

    sink: str
    events_per_hour: float = Field(
        description=f"Events for this sink, at the rate of the last hour, or of the latest {_LATEST:,} where these are "
        "younger."
    )
    bytes_per_hour: float = Field(description="The contents of these events.")
    waiting: int | None = Field(description=f"Records that wait now, counted up to {COUNTED_MAX:,}. Null: unknown.")
    event_days: int | None = Field(
        description="How long events are kept by default; null: for ever. What waits for a sink is kept longer."
    )
    source_backlog_max: int | None = Field(
        description="Of `webhooks`: when so many wait, Kafka sources take no more records. Null: nothing stops."
    )


def _out(row: Row, counts: Mapping[str, Any]) -> CarriedSink:
    return CarriedSink(
        sink=row["sink"], configured=row["configured"], paused=row["paused_at"] is not None,
        paused_at=row["paused_at"], paused_by=row["paused_by"], reason=row["pause_reason"],
        waiting=counts.get("backlog"), held=counts.get("held"), oldest_at=counts.get("oldest_at"),
        leader=row["owner"], term=row["term"],
    )  # fmt: skip


async def _all(context: Context) -> list[CarriedSink]:
    """Return the sinks as they are now, with the counts that all readers of the verdict share."""
    verdict = await context.verdict.get()
    counts = {row["sink"]: row for row in verdict.facts.sinks} if verdict is not None else {}
    return [_out(row, counts.get(row["sink"], {})) for row in await context.database.fetch("sink.list")]


async def _find(sink: str, context: Context) -> CarriedSink:
    found = next((one for one in await _all(context) if one.sink == sink), None)
    if found is None:
        raise Problem("not-found", "There is no such sink; they are kafka, amqp, webhooks and jobs.")
    return found


@router.get("", summary="List sinks", responses=refusals("invalid-cursor", "invalid-parameter"))
@needs("read", instead=_INSTEAD)
async def list_sinks(context: In, paging: PagedFew) -> SinkList:
    """Shows what waits for each, who carries it, and who has paused it."""
    [after] = paging.after("")
    found = [one for one in await _all(context) if one.sink > after]
    next_cursor = paging.next_after([found[paging.limit - 1].sink] if len(found) > paging.limit else None)
    return SinkList(items=found[: paging.limit], next_cursor=next_cursor)


@router.get("/{sink}", summary="Get a sink", responses=refusals("not-found", "invalid-parameter"))
@needs("read", instead=_INSTEAD)
async def show(sink: Sink, context: In) -> CarriedSink:
    """Shows what waits for it, who carries it, and who has paused it."""
    return await _find(sink, context)


@router.get("/{sink}/forecast", summary="Foretell a pause", responses=refusals("not-found", "invalid-parameter"))
@needs("read", instead=_INSTEAD)
async def forecast(sink: Sink, context: In) -> SinkForecast:
    """Tells how much would wait for each hour of a pause, from the events that were accepted lately."""
    found = await _find(sink, context)
    row = await context.database.fetchrow("sink.inflow", sink, _LATEST)
    assert row is not None, "a row of aggregates"
    hours = row["seconds"] / _HOUR_SECONDS
    settings = context.settings
    return SinkForecast(
        sink=sink, events_per_hour=row["events"] / hours, bytes_per_hour=row["bytes"] / hours, waiting=found.waiting,
        event_days=settings.retention_days or None,
        source_backlog_max=settings.kafka_source_backlog_max if sink == "webhooks" and settings.kafka_sources else None,
    )  # fmt: skip


@router.post("/{sink}/pause", summary="Pause a sink", responses=_VERB)
@needs("operate")
async def pause(sink: Sink, body: Reasoned, request: Request, context: In) -> CarriedSink:
    """No process claims a record for it from now on; batches in flight end. Events are accepted, and wait in order.

    It stays paused over restarts and failovers. A sink that is paused already keeps who paused it, and since when.
    """
    return _turned(await context.database.fetchrow("sink.pause", sink, actor_of(request), body.reason))


@router.post("/{sink}/resume", summary="Resume a sink", responses=_VERB)
@needs("operate")
async def resume(sink: Sink, body: Reasoned, request: Request, context: In) -> CarriedSink:
    """What waits goes out within a few seconds, oldest first."""
    return _turned(await context.database.fetchrow("sink.resume", sink, actor_of(request), body.reason))


def _turned(row: Row | None) -> CarriedSink:
    if row is None:
        raise Problem("not-found", "There is no such sink; they are kafka, amqp, webhooks and jobs.")
    return _out(row, {})
