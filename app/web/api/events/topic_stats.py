"""/topics/{topic}/stats: events of a topic by hour, from the ledger."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Final

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.dependency import In
from app.web.api.route.database_refusal import checked_topic
from app.web.api.route.moment import Until, ZonedMoment, rate, span_of, whole
from app.web.api.route.refusals import refusals
from app.web.api.route.strict_route import strict_router
from app.web.scopes import needs

__all__ = ["TopicStats", "router"]

router = strict_router("/topics", "topics", "invalid-parameter")
_HOURS_MAX: Final = 1_500
_POINT: dict[str, Any] = {"at": "2026-01-15T09:00:00Z", "accepted": 620}
_SINK: dict[str, Any] = {"sink": "webhooks", "owed": 620, "sent": 620, "dead": 0}


class HourOut(BaseModel):
    """The events of an hour."""

    model_config = ConfigDict(json_schema_extra={"examples": [_POINT]})

    at: datetime = Field(description="When it begins.")
    accepted: int


class SinkCounts(BaseModel):
    """What a sink was owed, and what it got. Both are counted in batches, so they may differ for a minute."""

    model_config = ConfigDict(json_schema_extra={"examples": [_SINK]})

    sink: str
    owed: int
    sent: int = Field(description="Confirmed by the broker; or, for webhooks, turned into deliveries.")
    dead: int = Field(description="Given up by a person.")


class TopicStats(BaseModel):
    """The events of a topic in whole hours."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "since": "2026-01-14T10:00:00Z", "until": "2026-01-15T11:00:00Z", "as_of": "2026-01-15T10:02:41Z",
                    "accepted": 620, "accepted_per_second": 0.0069, "sinks": [_SINK], "points": [_POINT],
                }
            ]
        }
    )  # fmt: skip

    since: datetime
    until: datetime
    as_of: datetime = Field(description="Later events may be missing: they are counted once a minute.")
    accepted: int
    accepted_per_second: float
    sinks: list[SinkCounts]
    points: list[HourOut] = Field(description="Hours with an event, oldest first.")


@router.get("/{topic}/stats", summary="Get a topic's rates", responses=refusals("invalid-topic"))
@needs("read", reach="topic")
async def stats(
    topic: str,
    context: In,
    since: Annotated[ZonedMoment | None, Query(description="Default: a day before `until`.")] = None,
    until: Until = None,
) -> TopicStats:
    """Whole hours in UTC, kept for 400 days; at most 1,500. `GET /subscriptions/{id}/stats` has the receivers' side."""
    name = checked_topic(topic)
    now = await context.database.fetchval("diagnosis.now")
    start, end = whole(*span_of(since, until, now, timedelta(days=1)), timedelta(hours=1), _HOURS_MAX)
    as_of = await context.database.fetchval("stats.counted_until")
    rows = await context.database.fetch("stats.topic", name, start, end)
    sinks: dict[str, dict[str, int]] = {}
    for row in rows:
        found = sinks.setdefault(row["sink"], {"owed": 0, "sent": 0, "dead": 0})
        for count in found:
            found[count] += row[count]
    accepted = sinks.pop("", {"owed": 0})["owed"]
    return TopicStats(
        since=start, until=end, as_of=as_of, accepted=accepted,
        accepted_per_second=rate(accepted, start, end, now),
        sinks=[SinkCounts(sink=sink, **counts) for sink, counts in sorted(sinks.items())],
        points=[HourOut(at=row["at"], accepted=row["owed"]) for row in rows if not row["sink"] and row["owed"]],
    )  # fmt: skip
