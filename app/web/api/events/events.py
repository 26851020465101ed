"""/events/{id}: the event and its deliveries."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.dependency import In
from app.web.api.events.delivery_row import delivery_out
from app.web.api.route.answers import row_bytes
from app.web.api.route.condition import BlockedBy, ConditionReason, NextAttemptAt
from app.web.api.route.context import Context
from app.web.api.route.event_ids import event_number
from app.web.api.route.json_route import JsonRoute
from app.web.api.route.refusals import refusals
from app.web.authentication import grant_of, require_topic, shows_payloads
from app.web.problem import Problem
from app.web.scopes import needs
from db.pool import Row
from event.strict_json import StrictJsonError, loads
from webhooks.condition import (
    Condition,
    DeliveryState,
    EventState,
    delivery_condition,
    event_condition,
    format_moment,
    sink_condition,
)

__all__ = ["outcome_of", "payload_out", "router"]

router = APIRouter(
    prefix="/events", tags=["events"], route_class=JsonRoute,
    responses=refusals("database-unavailable", "busy", "not-found"),
)  # fmt: skip
_SHOWN_DELIVERIES = 100
_HEADERS_LEFT_OUT = " Its headers have more than 64 KiB and are left out here."
_DATA_MAX = 256 * 1024  # parsed on the event loop
_WORDS = {"dead": "given up", "ended": "ended with its subscription or its contents"}
_MISSING = "There is no such event; its retention may have ended."


class SinkOut(BaseModel):
    """The state of an event for one sink."""

    sink: Literal["kafka", "amqp", "webhooks", "jobs"]
    state: Literal["pending", "held", "sent"]
    reason: ConditionReason
    blocked_by: BlockedBy
    next_attempt_at: NextAttemptAt


class EventDeliveryOut(BaseModel):
    """The state of an event for one subscription."""

    id: str
    subscription_id: str
    callback: str
    state: DeliveryState
    reason: ConditionReason
    blocked_by: BlockedBy
    attempts: int
    last_outcome: str | None
    last_status: int | None
    next_attempt_at: NextAttemptAt
    detail: str | None


_EXAMPLE: dict[str, Any] = {
    "id": "evt_k3v7q2ha_42",
    "topic": "orders.created",
    "key": "customer-17",
    "sequence": 42,
    "content_type": "application/json",
    "headers": {},
    "accepted_at": "2026-01-15T09:31:07.120455Z",
    "erased_at": None,
    "payload": '{"order": 4711, "total": "19.90"}',
    "payload_base64": None,
    "data": {"order": 4711, "total": "19.90"},
    "state": "delivered",
    "reason": "delivered at 2026-01-15T09:31:07Z by attempt 1",
    "blocked_by": None,
    "next_attempt_at": None,
    "sinks": [
        {
            "sink": "webhooks",
            "state": "sent",
            "reason": "matched with subscriptions",
            "blocked_by": None,
            "next_attempt_at": None,
        }
    ],
    "deliveries": [
        {
            "id": "dlv_42_7",
            "subscription_id": "sub_3f1c0a9be2d45c7780aa",
            "callback": "http://127.0.0.1:9000/hook",
            "state": "delivered",
            "reason": "delivered at 2026-01-15T09:31:07Z by attempt 1",
            "blocked_by": None,
            "attempts": 1,
            "last_outcome": "delivered",
            "last_status": 204,
            "next_attempt_at": None,
            "detail": None,
        }
    ],
    "summary": "1 delivered.",
}


class EventOut(BaseModel):
    """A stored event."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    id: str
    topic: str
    key: str | None
    sequence: int | None
    content_type: str | None
    headers: dict[str, str]
    accepted_at: datetime
    erased_at: datetime | None = Field(description="When its contents were erased; null: they are there.")
    payload: str | None = Field(
        description="The body as text, if it is UTF-8. Both are null for a key without the scope `payloads`."
    )
    payload_base64: str | None = Field(description="The body, if it is not text.")
    data: Any = Field(
        description="The body as JSON, if its content type says so and it has 256 KiB at most; else null."
    )
    state: EventState = Field(
        description="State of the part that is furthest from being delivered. unrouted: its topic has no sink. "
        "unmatched: no subscription matched."
    )
    reason: ConditionReason
    blocked_by: BlockedBy
    next_attempt_at: NextAttemptAt
    sinks: list[SinkOut]
    deliveries: list[EventDeliveryOut] = Field(
        description="The first hundred; /deliveries has all of them. A key for some topics sees only subscriptions "
        "within its patterns; the summary counts all."
    )
    summary: str = Field(description="One sentence about its outcome.")


def _summary(sinks: Sequence[tuple[str, Condition]], deliveries: Sequence[Condition]) -> str:
    if not sinks:
        return "It has no receiver: its topic is routed to no sink. It is stored."
    waiting = [sink for sink, found in sinks if found.state != "sent"]
    words = [f"still owed to {', '.join(waiting)}"] if waiting else []
    states = [delivery.state for delivery in deliveries]
    if "webhooks" in {sink for sink, _ in sinks} - set(waiting) and not states:
        words.append("no subscription's topic and filter matched when it was fanned out")
    for state in ("delivered", "retrying", "parked", "sending", "pending", "dead", "ended"):
        if state in states:
            words.append(f"{states.count(state)} {_WORDS.get(state, state)}")
    sent = [sink for sink, found in sinks if found.state == "sent"]
    if "jobs" in sent:
        words.append("its job enqueued")
    if brokers := [sink for sink in sent if sink not in ("webhooks", "jobs")]:
        words.append(f"confirmed by {' and '.join(brokers)}")
    sentence = "; ".join(words) or "on its way"
    return sentence[0].upper() + sentence[1:] + "."


@router.get("/{event_id}", summary="Get an event and its outcome", response_model=EventOut)
@needs("read", reach="route")
async def get(request: Request, event_id: str, context: In) -> Response:
    """Shows the outcome per sink and per subscription. For an event without any receiver it gives the reason."""
    number = event_number(event_id, context.incarnation)
    async with context.answers.share() as share:
        rows = await share.fetch(lambda _: context.database.fetch("event.get", "default", number))
        if not rows:
            raise Problem("not-found", _MISSING)
        outcome = await outcome_of(request, rows[0], context)
        shown = shows_payloads(request)
        return await share.one(lambda: _out(event_id, rows[0], outcome, shown=shown), row_bytes(rows[0]))


async def outcome_of(request: Request, row: Row, context: Context) -> dict[str, Any]:
    """Return the members of the answer that say what became of the event; ``Problem`` if the key may not see it."""
    number = row["id"]
    require_topic(request, row["topic"], hidden=_MISSING)
    sinks = [
        (sink["sink"], sink_condition(sink))
        for sink in await context.database.fetch("event.sink_states", "default", number)
    ]
    rows = await context.database.fetch_filtered(
        "delivery.list",
        "default",
        number,
        None,
        None,
        2**63 - 1,
        2**63 - 1,
        _SHOWN_DELIVERIES,
        0,
        None,
        None,
        0,
    )
    grant = grant_of(request)
    # A callback may be a capability, so a key sees those of subscriptions that it reaches.
    shown = [d for d in rows if grant is None or grant.reaches(d["topic"])]
    deliveries = [delivery_condition(d) for d in rows]
    condition = event_condition(sinks, [delivery_condition(d) for d in shown])
    return {
        **condition._asdict(),
        "sinks": [{"sink": sink, **found._asdict()} for sink, found in sinks],
        "deliveries": [delivery_out(delivery, context.incarnation) for delivery in shown],
        "summary": _summary(sinks, deliveries) + _left_out(row),
    }


def _left_out(row: Row) -> str:
    """Return a sentence about contents that the answer does not have."""
    if row["erased_at"] is not None:
        return f" Its contents were erased at {format_moment(row['erased_at'])}."
    return _HEADERS_LEFT_OUT if row["headers_left_out"] else ""


def _out(event_id: str, row: Row, outcome: dict[str, Any], *, shown: bool) -> dict[str, Any]:
    is_shown = shown and row["erased_at"] is None
    text, encoded = payload_out(row["payload"]) if is_shown else (None, None)
    return EventOut.model_validate(
        {
            **row,
            "id": event_id,
            "sequence": row["id"] if row["ordered"] else None,
            "headers": json.loads(row["headers"]),
            "payload": text,
            "payload_base64": encoded,
            "data": _json_of(row["content_type"], text),
            **outcome,
        }
    ).model_dump()


def _json_of(content_type: str | None, text: str | None) -> Any:
    """Return the value of a body whose type is JSON."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    if text is None or len(text) > _DATA_MAX or not (kind == "application/json" or kind.endswith("+json")):
        return None
    try:
        return loads(text.encode())
    except StrictJsonError:
        return None


def payload_out(payload: bytes) -> tuple[str | None, str | None]:
    """Return a body as text, or else in base64."""
    try:
        return payload.decode("utf-8"), None
    except UnicodeDecodeError:
        return None, base64.b64encode(payload).decode()
