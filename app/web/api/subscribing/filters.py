"""/filters/test: test a filter on an event."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.dependency import In
from app.web.api.route.context import Context
from app.web.api.route.event_ids import event_number
from app.web.api.route.moment import Moment
from app.web.api.route.refusals import BODY, refusals
from app.web.api.route.strict_route import strict_router
from app.web.authentication import require_topic
from app.web.problem import Problem
from app.web.scopes import needs
from event.strict_json import DEPTH_MAX, StrictJsonError, check_shape
from hub.filter import FilterError, compile_filter

__all__ = ["router"]

router = strict_router("/filters", "subscriptions")
_DIGITS_MAX = 300
_MISSING = "There is no such event; its retention may have ended."


class SampleEvent(BaseModel):
    """A sample event, which is not stored."""

    model_config = ConfigDict(extra="forbid")

    topic: str = Field("sample", max_length=249)
    key: str | None = Field(None, max_length=1024)
    time: Moment | None = Field(None, description="Default: now.")
    content_type: str | None = Field("application/json", max_length=255)
    headers: dict[str, str] = Field(default_factory=dict)
    data: Any = None


class FilterTest(BaseModel):
    """A filter, and either a stored event's id or a sample."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"filter": {"data": {"amount": {"$gte": 100}}}, "event": {"data": {"amount": 120}}}]
        },
    )

    filter: dict[str, Any]
    event_id: str | None = Field(None, max_length=60)
    event: SampleEvent | None = None


_TOO_EXPENSIVE: Final = (
    "The filter is too expensive for this event: its conditions times the values of the event may be above 1,000,000. "
    "The subscription would get a dead letter. Use fewer conditions, or events with fewer values."
)
_DOCUMENT: dict[str, Any] = {
    "topic": "sample",
    "key": None,
    "time": "2026-01-15T09:31:07.120455Z",
    "content_type": "application/json",
    "headers": {},
    "data": {"amount": 120},
}


class FilterVerdict(BaseModel):
    """Whether it passes, and the data that the filter read."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"matches": True, "document": _DOCUMENT}]})

    matches: bool
    document: dict[str, Any] = Field(description="`data` is null where the body is no JSON.")


@router.post(
    "/test",
    summary="Try a filter on an event",
    responses=refusals(*BODY, "invalid-filter", "not-found"),
)
@needs("subscribe", reach="route")
async def test(request: Request, body: FilterTest, context: In) -> FilterVerdict:
    """Uses the same statement as the fan-out. Nothing is stored."""
    try:
        path = compile_filter(body.filter)
    except FilterError as error:
        raise Problem("invalid-filter", str(error), parameter="filter") from None
    row = await context.database.fetchrow("filter.test", path, *await _event(request, body, context))
    assert row is not None, "a row of scalars"
    if path is not None and not row["affordable"]:
        raise Problem("invalid-filter", _TOO_EXPENSIVE, parameter="filter")
    return FilterVerdict(matches=path is None or row["matches"], document=_read(row["document"]))


def _read(document: str) -> dict[str, Any]:
    """Read PostgreSQL's JSON. Numbers that Python refuses or reads as infinite become texts. Too deep nesting and
    too many values are a ``Problem``.
    """
    try:
        check_shape(document, depth_max=DEPTH_MAX + 1)
    except StrictJsonError as error:
        raise Problem(
            "invalid-parameter", f"The event cannot be shown: {error.reason}.", parameter="event_id"
        ) from None
    read: dict[str, Any] = json.loads(document, parse_int=_number(int), parse_float=_number(float))
    return read


def _number(kind: Callable[[str], float]) -> Callable[[str], float | str]:
    return lambda text: kind(text) if len(text) < _DIGITS_MAX else text


async def _event(request: Request, body: FilterTest, context: Context) -> list[Any]:
    if (body.event_id is None) == (body.event is None):
        raise Problem("invalid-parameter", "Give either event_id or event.", parameter="event_id")
    if body.event is not None:
        event = body.event
        payload = json.dumps(event.data).encode()
        at = event.time or datetime.now(UTC)
        return [event.topic, event.key, at, event.content_type, json.dumps(event.headers), payload]
    assert body.event_id is not None, "one of the two is there"
    number = event_number(body.event_id, context.incarnation)
    row = await context.database.fetchrow("event.get", "default", number)
    if row is None:
        raise Problem("not-found", _MISSING)
    require_topic(request, row["topic"], hidden=_MISSING)
    if row["erased_at"] is not None:
        raise Problem("event-erased", "A filter cannot judge it any more.")
    return [row[name] for name in ("topic", "key", "accepted_at", "content_type", "headers", "payload")]
