"""/undelivered: accepted events that have not reached a subscriber, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from fastapi import Query, Request
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.dependency import In
from app.web.api.events.event_search import Since, Until, id_range
from app.web.api.route.condition import BlockedBy, ConditionReason, NextAttemptAt
from app.web.api.route.context import Context
from app.web.api.route.known_subscription import find
from app.web.api.route.paging import Paged, Paging
from app.web.api.route.refusals import refusals
from app.web.api.route.strict_route import strict_router
from app.web.problem import Problem
from app.web.scopes import needs
from db.pool import Row
from event.identity import format_event_id
from webhooks.condition import QUEUED, DeliveryState, delivery_condition
from webhooks.delivery_id import format_delivery_id

__all__ = ["router"]

router = strict_router("/undelivered", "deliveries")
_EXAMPLE: dict[str, Any] = {
    "event_id": "evt_k3v7q2ha_42",
    "subscription_id": "sub_3f1c0a9be2d45c7780aa",
    "delivery_id": "dlv_42_7",
    "callback": "http://127.0.0.1:9000/hook",
    "state": "retrying",
    "reason": "the last attempt failed: timeout; attempt 4 is at 2026-01-15T10:06:07Z",
    "blocked_by": "schedule",
    "attempts": 3,
    "last_outcome": "timeout",
    "last_status": None,
    "next_attempt_at": "2026-01-15T10:06:07.131002Z",
}


class UndeliveredOut(BaseModel):
    """An event that has not reached a subscriber."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    event_id: str
    subscription_id: str | None = Field(description="Null while the event is not fanned out yet.")
    delivery_id: str | None
    callback: str | None
    state: DeliveryState = Field(
        description="The state as in /deliveries; also pending while the event is not fanned out yet."
    )
    reason: ConditionReason
    blocked_by: BlockedBy
    attempts: int
    last_outcome: str | None
    last_status: int | None
    next_attempt_at: NextAttemptAt


class UndeliveredPage(BaseModel):
    """A page: first events that are not fanned out yet, then open deliveries, then dead letters.

    Each part begins with its oldest event; of one subscription, open deliveries begin with the next due one.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_EXAMPLE], "next_cursor": None}]})

    items: list[UndeliveredOut]
    next_cursor: str | None


# A place in the list: the part, and of its last item the due time (microseconds since 1970), event and subscription.
Place = tuple[str, int, int, int]
_PARTS: Sequence[str] = ("queued", "waiting", "dead")
_OUTCOMES = {"waiting": ("queued", "waiting"), "dead": ("dead",), None: _PARTS}
_NEVER_US: Final = 10**16  # in the year 2286, which stands for infinity


@router.get(
    "",
    summary="List undelivered events with their reasons",
    responses=refusals("invalid-cursor", "invalid-parameter", "not-found"),
)
@needs("read", reach="route")
async def list_undelivered(
    request: Request,
    context: In,
    paging: Paged,
    subscription_id: Annotated[str | None, Query(max_length=60)] = None,
    outcome: Annotated[
        Literal["waiting", "dead"] | None,
        Query(description="The outcome as in /events. waiting: still owed. dead: given up. Default: both."),
    ] = None,
    since: Since = None,
    until: Until = None,
) -> UndeliveredPage:
    """If an accepted event is not in this list, each subscription that wanted it has answered with 2xx, or has ended.
    `since` and `until` refer to the event.

    A key for some topics gets events and subscriptions within these. A page may then hold fewer items, or none.
    """
    chosen = await find(request, subscription_id, context) if subscription_id is not None else None
    subscription = chosen["id"] if chosen is not None else None
    span = await id_range(context, since, until)

    async def read(after: Sequence[Any], most: int) -> tuple[Sequence[Row], Place | None]:
        rows: list[Row] = []
        for place in _from((after[0], after[1], after[2], after[3])):
            if place[0] in _OUTCOMES[outcome] and len(rows) <= most:
                rows += await _read(context, place, subscription, most + 1 - len(rows), span)
        return rows[:most], rows[most - 1]["place"] if len(rows) > most else None

    rows, next_cursor = await paging.reached(
        _begin(paging), read, lambda row: row["topic"] if chosen is None else chosen["topic"], _place
    )
    return UndeliveredPage.model_validate({"items": [row["item"] for row in rows], "next_cursor": next_cursor})


def _begin(paging: Paging) -> Place:
    """Return the place behind which the page begins."""
    part, due_us, event, subscription = paging.after("queued", 0, 0, 0)
    if part not in _PARTS or due_us > _NEVER_US:
        raise Problem("invalid-cursor")
    return part, due_us, event, subscription


def _from(place: Place) -> list[Place]:
    """Return a place and the beginnings of the later parts."""
    return [place, *((part, 0, 0, 0) for part in _PARTS[_PARTS.index(place[0]) + 1 :])]


def _place(row: Row) -> Place:
    place: Place = row["place"]
    return place


async def _read(
    context: Context, place: Place, subscription: int | None, most: int, span: tuple[int, int]
) -> list[Row]:
    """Return at most ``most`` rows of one part after a place, of events in ``span``.

    Each has the ``item`` of the answer, its ``place``, and the ``topic`` of the event or of the subscription.
    """
    part, due_us, event, last = place
    fetch, tenant = context.database.fetch, "default"
    if part == "queued":
        rows = await fetch("undelivered.queued", tenant, subscription, event, most, *span)
        return [_row(row, _queued(row, context.incarnation), (part, 0, row["event_id"], 0)) for row in rows]
    if subscription is None:
        name = "undelivered.open" if part == "waiting" else "undelivered.dead"
        rows = await fetch(name, tenant, event, last, most, *span)
    elif part == "waiting":
        rows = await fetch("undelivered.open_of", tenant, subscription, due_us, event, _NEVER_US, most, *span)
    else:
        rows = await fetch("undelivered.dead_of", tenant, subscription, event, most, *span)
    return [_row(row, _out(row, context.incarnation), _place_in(part, row)) for row in rows]


def _place_in(part: str, row: Row) -> Place:
    return part, row.get("due_us", 0), row["event_id"], row["subscription_id"]


def _row(row: Row, item: dict[str, Any], place: Place) -> Row:
    return {"item": item, "place": place, "topic": row.get("topic")}


def _queued(row: Row, incarnation: str) -> dict[str, Any]:
    nothing = ("subscription_id", "delivery_id", "callback", "last_outcome", "last_status", "next_attempt_at")
    return dict.fromkeys(nothing) | {
        **QUEUED._asdict(),
        "event_id": format_event_id(incarnation, row["event_id"]),
        "attempts": 0,
    }


def _out(row: Row, incarnation: str) -> dict[str, Any]:
    return {
        **row,
        "event_id": format_event_id(incarnation, row["event_id"]),
        "subscription_id": row["public_id"],
        "delivery_id": format_delivery_id(row["event_id"], row["subscription_id"]),
        **delivery_condition(row)._asdict(),
    }
