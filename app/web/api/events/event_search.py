"""GET /events: the stored events, newest first, by topic, key, time and outcome."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Query, Request
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.dependency import In
from app.web.api.route.context import Context
from app.web.api.route.moment import ZonedMoment
from app.web.api.route.paging import Paged
from app.web.api.route.refusals import refusals
from app.web.api.route.strict_route import strict_router
from app.web.authentication import require_topic, topics_expression
from app.web.problem import Problem
from app.web.scopes import needs
from db.pool import Row
from event.identity import format_event_id

__all__ = ["Since", "Until", "id_range", "router"]

router = strict_router("/events", "events")
Since = Annotated[ZonedMoment | None, Query(description="Accepted at or after this moment; RFC 3339 with a zone.")]
Until = Annotated[ZonedMoment | None, Query(description="Accepted before this moment.")]
Outcome = Literal["waiting", "dead", "delivered"]
_LARGEST = 2**63 - 1
_EXAMINED_MAX = 2_000
_ROOM_SECONDS = 3_600.0
"""The longest time that a publishing transaction may stay open. Its events have lower ids than events accepted at the
same time.
"""
_EXAMPLE: dict[str, Any] = {
    "id": "evt_k3v7q2ha_42",
    "topic": "orders.created",
    "key": "customer-17",
    "sequence": 42,
    "content_type": "application/json",
    "accepted_at": "2026-01-15T09:31:07.120455Z",
    "bytes": 33,
    "erased_at": None,
    "outcome": "delivered",
}


class EventSummaryOut(BaseModel):
    """A stored event without its content."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    id: str
    topic: str
    key: str | None
    sequence: int | None
    content_type: str | None
    accepted_at: datetime
    bytes: int = Field(description="Size of its content.")
    erased_at: datetime | None = Field(description="When its contents were erased; null: they are there.")
    outcome: Outcome = Field(
        description="dead: a delivery or record of it was given up. waiting: it is still owed to a sink or a "
        "subscription. delivered: neither, also without any receiver."
    )


class EventPage(BaseModel):
    """A page of events, newest first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_EXAMPLE], "next_cursor": None}]})

    items: list[EventSummaryOut]
    next_cursor: str | None = Field(description="Leads to the next page, also from a page that is not full.")


@router.get(
    "",
    summary="Search events by topic, key, time and outcome",
    responses=refusals("invalid-cursor", "invalid-parameter"),
)
@needs("read", reach="route")
async def list_events(
    request: Request,
    context: In,
    paging: Paged,
    topic: Annotated[str | None, Query(max_length=249, description="Exactly this topic.")] = None,
    key: Annotated[str | None, Query(max_length=1024, description="Exactly this ordering key.")] = None,
    since: Since = None,
    until: Until = None,
    outcome: Annotated[Outcome | None, Query()] = None,
) -> EventPage:
    """A page reads 2,000 events at most. Follow `next_cursor` until it is null. A key for some topics gets these
    topics' events.
    """
    if any(text is not None and "\x00" in text for text in (topic, key)):
        raise Problem("invalid-parameter", "topic or key holds a NUL character", parameter="topic")
    if topic is not None:
        require_topic(request, topic)
    low, high = await id_range(context, since, until, _ROOM_SECONDS)
    (before,) = paging.after(high)
    own = topics_expression(request) if topic is None else None
    is_plain = (outcome, since, until, own) == (None, None, None, None)
    examined_max = paging.limit + 1 if is_plain else _EXAMINED_MAX
    rows = await context.database.fetch_filtered(
        "event.search", "default", topic, key, low, min(before, high), since, until, outcome, examined_max,
        paging.limit + 1, own,
    )  # fmt: skip
    found = [row for row in rows if row["id"] is not None]
    last = found[paging.limit - 1]["id"] if len(found) > paging.limit else None
    if last is None and rows[0]["examined"] == examined_max:
        last = rows[0]["last_id"]
    next_cursor = paging.next_after(None if last is None else [last])
    items = [_out(row, context.incarnation) for row in found[: paging.limit]]
    return EventPage.model_validate({"items": items, "next_cursor": next_cursor})


async def id_range(
    context: Context, since: datetime | None, until: datetime | None, room_seconds: float = 0.0
) -> tuple[int, int]:
    """Return the lowest and, exclusive, the highest id of events accepted in a time range, with room at both ends."""
    if since is None and until is None:
        return 0, _LARGEST
    row = await context.database.fetchrow("event.id_range", "default", since, until, room_seconds)
    assert row is not None, "a row of scalars"
    return row["low"] or 0, row["high"] or _LARGEST


def _out(row: Row, incarnation: str) -> dict[str, Any]:
    identity = format_event_id(incarnation, row["id"])
    return {**row, "id": identity, "sequence": row["id"] if row["ordered"] else None}
