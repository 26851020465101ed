"""/events/{id}/timeline: what happened to one event, step by step, and why it is not everywhere yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.dependency import In
from app.web.api.events.events import outcome_of
from app.web.api.route.event_ids import event_number
from app.web.api.route.json_route import JsonRoute
from app.web.api.route.refusals import refusals
from app.web.authentication import grant_of, shows_payloads
from app.web.problem import Problem
from app.web.scopes import needs
from db.pool import Row

__all__ = ["router"]

router = APIRouter(
    prefix="/events", tags=["events"], route_class=JsonRoute,
    responses=refusals("database-unavailable", "busy", "not-found"),
)  # fmt: skip
_MISSING: Final = "There is no such event; its retention may have ended."
_ATTEMPTS_MAX: Final = 500
_EXAMINED_MAX: Final = 1_000
_UNMATCHED_MAX: Final = 50
_ACCEPTED: Final[dict[str, Any]] = {
    "kind": "accepted", "name": "orders.created", "at": "2026-01-15T09:31:07.120455Z", "state": "stored",
    "reason": "stored for webhooks, with the key customer-17", "subscription_id": None, "number": None, "status": None,
    "seconds": None, "answer": None,
}  # fmt: skip
_EXAMPLE: Final[dict[str, Any]] = {
    "event_id": "evt_k3v7q2ha_42", "topic": "orders.created", "state": "delivered", "summary": "1 delivered.",
    "steps": [
        _ACCEPTED,
        {
            **_ACCEPTED, "kind": "attempt", "name": "dlv_42_7", "at": "2026-01-15T09:31:07.131002Z",
            "state": "delivered", "reason": "delivered 204", "subscription_id": "sub_3f1c0a9be2d45c7780aa",
            "number": 1, "status": 204, "seconds": 0.004, "answer": "",
        },
    ],
}  # fmt: skip


class StepOut(BaseModel):
    """One step."""

    kind: Literal["accepted", "sink", "delivery", "attempt", "unmatched"] = Field(
        description="`accepted` by the hub; `sink`: its state there; `delivery`: a subscription that matched; "
        "`attempt` of the delivery above it; `unmatched`: a subscription of its topic without a delivery of it."
    )
    name: str = Field(description="The topic, the sink, the delivery or the subscription.")
    at: datetime | None = Field(description="When it happened; null where this is not recorded.")
    state: str
    reason: str = Field(description="Why it is in this state, in one sentence.")
    subscription_id: str | None
    number: int | None = Field(description="Number of the attempt.")
    status: int | None = Field(description="Status of the receiver's answer.")
    seconds: float | None = Field(description="Duration of the attempt.")
    answer: str | None = Field(
        description="The beginning of the receiver's answer, as text; null without the scope `payloads`."
    )


class TimelineOut(BaseModel):
    """The steps of an event, each behind what it follows from."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    event_id: str
    topic: str
    state: str = Field(description="As in `GET /events/{event_id}`.")
    summary: str = Field(description="One sentence: what became of it, or why it is not delivered yet.")
    steps: list[StepOut] = Field(
        description="At most 100 deliveries, 500 attempts and 50 unmatched subscriptions. For these, today's topics "
        "and filters are judged, because those of the past are not kept."
    )


@router.get("/{event_id}/timeline", summary="Get what happened to an event", response_model=TimelineOut)
@needs("read", reach="route")
async def timeline(request: Request, event_id: str, context: In) -> dict[str, Any]:
    """Shows each sink, each delivery with its attempts and answers, and the subscriptions that did not match.

    A key for some topics sees subscriptions within its patterns only, and not which API key published the event.
    """
    number, database = event_number(event_id, context.incarnation), context.database
    row = await database.fetchrow("event.get", "default", number)
    if row is None:
        raise Problem("not-found", _MISSING)
    outcome = await outcome_of(request, row, context)
    attempts = await database.fetch("timeline.attempts", "default", number, _ATTEMPTS_MAX)
    unmatched = await database.fetch("timeline.unmatched", "default", number, _EXAMINED_MAX, _UNMATCHED_MAX)
    grant = grant_of(request)
    steps = [
        _accepted(row, shows_key=grant is None or grant.topics is None),
        *map(_sink, outcome["sinks"]),
        *_deliveries(outcome["deliveries"], attempts, shown=shows_payloads(request)),
        *(_unmatched(one, row["sinks"]) for one in unmatched if grant is None or grant.reaches(one["topic"])),
    ]
    told = {name: outcome[name] for name in ("state", "summary")}
    return {"event_id": event_id, "topic": row["topic"], **told, "steps": [{**_EMPTY, **step} for step in steps]}


_EMPTY: Final = dict.fromkeys(StepOut.model_fields)


def _accepted(row: Row, *, shows_key: bool) -> dict[str, Any]:
    owed = " and ".join(row["sinks"]) or "no sink"
    key = f", with the key {row['key']}" if row["key"] is not None else ", without a key"
    if shows_key and row["published_by"] is not None:
        key += f"; published by the API key {row['published_by']}"
    return {
        "kind": "accepted", "name": row["topic"], "at": row["accepted_at"], "state": "stored",
        "reason": f"stored for {owed}{key}",
    }  # fmt: skip


def _sink(sink: Mapping[str, Any]) -> dict[str, Any]:
    return {"kind": "sink", "name": sink["sink"], "state": sink["state"], "reason": sink["reason"]}


def _deliveries(
    deliveries: Sequence[Mapping[str, Any]], attempts: Iterable[Row], *, shown: bool
) -> Iterator[dict[str, Any]]:
    """Yield each delivery, and behind it its attempts."""
    by_number: dict[str, list[Row]] = {}
    for attempt in attempts:
        by_number.setdefault(str(attempt["subscription_id"]), []).append(attempt)
    for one in deliveries:
        subject = {"name": one["id"], "subscription_id": one["subscription_id"]}
        yield {"kind": "delivery", **subject, "at": one["at"], "state": one["state"], "reason": one["reason"]}
        for attempt in by_number.get(one["id"].rpartition("_")[2], ()):
            yield {"kind": "attempt", **subject, **_attempt(attempt, shown=shown)}


def _attempt(row: Row, *, shown: bool) -> dict[str, Any]:
    words = " ".join(filter(None, (row["outcome"].replace("_", " "), str(row["status"] or ""))))
    answer = row["answer"].decode("utf-8", "replace") if shown and row["answer"] is not None else None
    return {
        "at": row["started_at"], "state": row["decision"], "number": row["number"], "status": row["status"],
        "reason": f"{words}: {row['detail']}" if row["detail"] else words, "seconds": round(row["total_seconds"], 6),
        "answer": answer,
    }  # fmt: skip


def _unmatched(row: Row, sinks: Sequence[str]) -> dict[str, Any]:
    if "webhooks" not in sinks:
        reason = "the event was not routed to webhooks"
    elif row["is_younger"]:
        reason = "it subscribed after the event was accepted"
    elif row["passes"] is False:
        reason = "its filter of today does not match the event"
    elif row["passes"] is None:
        reason = "it has a filter, which is not judged for a content of this size"
    else:
        reason = "it matches today; it did not when the event was fanned out, or the event is not fanned out yet"
    return {
        "kind": "unmatched", "name": row["public_id"], "at": row["created_at"], "state": "unmatched", "reason": reason,
        "subscription_id": row["public_id"],
    }  # fmt: skip
