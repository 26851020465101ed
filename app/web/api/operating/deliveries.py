"""/deliveries: the delivery of each event to each subscription, and every attempt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Query, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from app.web.api.dependency import In
from app.web.api.events.delivery_row import delivery_out
from app.web.api.events.event_search import Since, Until, id_range
from app.web.api.route.actor import Reason, Reasoned, actor_of
from app.web.api.route.condition import BlockedBy, ConditionReason, NextAttemptAt
from app.web.api.route.context import Context
from app.web.api.route.event_ids import event_number
from app.web.api.route.known_subscription import find
from app.web.api.route.paging import Paged
from app.web.api.route.refusals import OPTIONAL_BODY, refusals
from app.web.api.route.strict_route import strict_router
from app.web.authentication import require_every_topic, require_topic, shows_payloads
from app.web.problem import Problem
from app.web.scopes import needs
from db.pool import Row
from webhooks.condition import DeliveryState, delivery_condition
from webhooks.delivery_id import parse_delivery_id

__all__ = ["router"]

router = strict_router("/deliveries", "deliveries")
State = DeliveryState
_LARGEST = 2**63 - 1
_EXAMINED_MAX = 2_000
_ATTEMPTS_MAX = 5_000
"""As many attempts a page examines for delivered ones, so that it costs the same where nearly all have failed."""
_OPEN_STATES = ("pending", "sending", "retrying", "parked", "dead")
Seconds = Annotated[float, AfterValidator(lambda seconds: round(seconds, 6))]
_MISSING = "There is no such delivery."
_DONE = "No such delivery waits; it is being sent now, or has ended."
_REFUSED = refusals(*OPTIONAL_BODY, "not-found")


_DELIVERY_EXAMPLE: dict[str, Any] = {
    "id": "dlv_42_7",
    "event_id": "evt_k3v7q2ha_42",
    "subscription_id": "sub_3f1c0a9be2d45c7780aa",
    "callback": "http://127.0.0.1:9000/hook",
    "state": "delivered",
    "reason": "delivered at 2026-01-15T09:31:07Z by attempt 1",
    "blocked_by": None,
    "attempts": 1,
    "last_outcome": "delivered",
    "last_status": 204,
    "last_seconds": 0.004,
    "next_attempt_at": None,
    "at": "2026-01-15T09:31:07.131002Z",
    "detail": None,
}
_ATTEMPT_EXAMPLE: dict[str, Any] = {
    "number": 1,
    "started_at": "2026-01-15T09:31:07.131002Z",
    "trigger": "first",
    "outcome": "delivered",
    "decision": "delivered",
    "status": 204,
    "detail": None,
    "address": "127.0.0.1",
    "connect_seconds": 0.001,
    "first_byte_seconds": 0.004,
    "total_seconds": 0.004,
    "worker": "host-4711",
    "response_headers": {"content-length": "0"},
    "response_body": "",
}


class DeliveryOut(BaseModel):
    """One event for one subscription."""

    model_config = ConfigDict(json_schema_extra={"examples": [_DELIVERY_EXAMPLE]})

    id: str
    event_id: str
    subscription_id: str
    callback: str
    state: State
    reason: ConditionReason
    blocked_by: BlockedBy
    attempts: int
    last_outcome: str | None = Field(description="delivered, timeout, connect, client_error, ...")
    last_status: int | None
    last_seconds: Seconds | None = Field(description="Duration of the last attempt.")
    next_attempt_at: NextAttemptAt
    at: datetime = Field(description="Time of its creation, of its success or of giving it up.")
    detail: str | None


class DeliveryPage(BaseModel):
    """A page of deliveries, newest event first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_DELIVERY_EXAMPLE], "next_cursor": None}]})

    items: list[DeliveryOut]
    next_cursor: str | None


class AttemptOut(BaseModel):
    """One attempt."""

    number: int
    started_at: datetime
    trigger: str
    outcome: str
    decision: Literal["delivered", "retry", "park", "dead", "dropped", "probe"]
    status: int | None
    detail: str | None
    address: str | None
    connect_seconds: Seconds | None
    first_byte_seconds: Seconds | None
    total_seconds: Seconds
    worker: str
    response_headers: dict[str, str] | None
    response_body: str | None = Field(
        description="The beginning of the answer, as text; null, like its headers, without the scope `payloads`."
    )


class AttemptList(BaseModel):
    """All attempts of one delivery, oldest first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_ATTEMPT_EXAMPLE]}]})

    items: list[AttemptOut]


class DeliveryDone(BaseModel):
    """The action."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"id": "dlv_42_7", "done": "retried", "reason": "it is due now"}]}
    )

    id: str
    done: Literal["retried", "given_up"]
    reason: str = Field(description="The result of the action.")


@router.get(
    "",
    summary="List deliveries by event, subscription, topic, state and outcome",
    responses=refusals("invalid-cursor", "invalid-parameter", "not-found"),
)
@needs("read", reach="route")
async def list_deliveries(
    request: Request,
    context: In,
    paging: Paged,
    event_id: Annotated[str | None, Query(max_length=60)] = None,
    subscription_id: Annotated[str | None, Query(max_length=60)] = None,
    state: Annotated[State | None, Query()] = None,
    topic: Annotated[str | None, Query(max_length=249, description="Of events of exactly this topic.")] = None,
    outcome: Annotated[
        str | None, Query(max_length=40, pattern="^[a-z_]+$", description="Outcome of the last attempt: timeout, ...")
    ] = None,
    since: Since = None,
    until: Until = None,
) -> DeliveryPage:
    """Newest event first; `Link: rel="next"` and `next_cursor` lead to the next page. `since` and `until` refer to the
    event. `state=ended` lists dropped deliveries only with an event or a subscription. A page reads 5,000 attempts at
    most, and with `topic` 2,000 events: follow `next_cursor` until it is null.

    A key for some topics gets the deliveries of subscriptions within these.
    """
    event = event_number(event_id, context.incarnation) if event_id is not None else None
    if topic is not None:
        require_topic(request, topic)
    subscription = None
    if subscription_id is not None:
        subscription = (await find(request, subscription_id, context))["id"]
    low, high = await id_range(context, since, until)
    before = paging.after(high, 0 if until is not None else _LARGEST)

    async def read(before: Sequence[Any], most: int) -> tuple[Sequence[Row], Sequence[str | int] | None]:
        ids = await _events_of(context, topic, low, int(before[0])) if topic is not None else None
        reads_attempts = event is None and ids is None and state not in _OPEN_STATES and outcome in (None, "delivered")
        floor = await _examined(context, subscription, before, low) if reads_attempts else None
        lowest = floor or [low, 0]
        rows = await context.database.fetch_filtered(
            "delivery.list", "default", event, subscription, state, *before, most + 1, lowest[0], ids, outcome,
            lowest[1],
        )  # fmt: skip
        last = _place(rows[most - 1]) if len(rows) > most else floor
        if last is None and ids is not None and len(ids) == _EXAMINED_MAX:
            last = [ids[-1], 0]  # the topic has earlier events
        return rows[:most], last

    rows, next_cursor = await paging.reached(before, read, lambda row: row["topic"], _place)
    items = [delivery_out(row, context.incarnation) for row in rows]
    return DeliveryPage.model_validate({"items": items, "next_cursor": next_cursor})


def _place(row: Row) -> list[str | int]:
    return [row["event_id"], row["subscription_id"]]


async def _examined(context: Context, subscription: int | None, before: Sequence[Any], low: int) -> list[int] | None:
    """Return the lowest delivery that a page examines, as event and subscription; None where it examines all."""
    rows = await context.database.fetch_filtered(
        "delivery.examined", "default", subscription, *before, low, _ATTEMPTS_MAX - 1
    )
    return [rows[0]["event_id"], rows[0]["subscription_id"]] if rows else None


async def _events_of(context: Context, topic: str, low: int, newest: int) -> list[int]:
    """Return the newest events of a topic that a page examines, newest first."""
    if "\x00" in topic:
        raise Problem("invalid-parameter", "topic holds a NUL character", parameter="topic")
    rows = await context.database.fetch("event.of_topic", "default", topic, low, newest, _EXAMINED_MAX)
    return [row["id"] for row in rows]


@router.get("/{delivery_id}/attempts", summary="List the attempts of a delivery", responses=refusals("not-found"))
@needs("read", reach="route")
async def attempts(request: Request, delivery_id: str, context: In) -> AttemptList:
    """Oldest first."""
    event, subscription = await _numbers(request, delivery_id, context)
    rows = await context.database.fetch("delivery.attempts", "default", event, subscription)
    return AttemptList.model_validate({"items": [_attempt_out(row, shown=shows_payloads(request)) for row in rows]})


@router.post(
    "/{delivery_id}/retry", summary="Retry a delivery now", responses={**_REFUSED, **refusals("delivery-waits")}
)
@needs("operate", reach="route")
async def retry(request: Request, delivery_id: str, body: Reasoned, context: In) -> DeliveryDone:
    """Retry a waiting or parked delivery now. A parked delivery restarts its retry schedule.

    The attempt passes an open breaker as its probe. If anything else blocks the delivery, the answer is 409 and names
    it.
    """
    event, subscription = await _numbers(request, delivery_id, context)
    row = await context.database.fetchrow("delivery.get", "default", event, subscription)
    if row is None:
        raise Problem("not-found", _DONE)
    condition = delivery_condition(row)
    if row["is_claimed"] or row["is_probing"] or condition.blocked_by in ("pause", "order"):
        why = "the breaker's probe is being sent" if row["is_probing"] else condition.reason
        raise Problem("delivery-waits", f"{why[0].upper()}{why[1:]}.", blocked_by=condition.blocked_by)
    await _turn(event, subscription, actor_of(request), body, context, "delivery.retry_now")
    is_probe = condition.blocked_by == "breaker"
    return DeliveryDone(
        id=delivery_id, done="retried", reason="it is sent as the probe of the breaker" if is_probe else "it is due now"
    )


@router.post("/{delivery_id}/try", include_in_schema=False)  # the former name (ADR 51)
@needs("operate", reach="route")
async def try_now(request: Request, delivery_id: str, body: Reasoned, context: In) -> DeliveryDone:
    """Retry a delivery now."""
    return await retry(request, delivery_id, body, context)


@router.post("/{delivery_id}/give-up", summary="Give up a delivery", responses=_REFUSED)
@needs("operate", reach="route")
async def give_up(request: Request, delivery_id: str, body: Reasoned, context: In) -> DeliveryDone:
    """The delivery becomes a dead letter. Later deliveries of its key continue."""
    event, subscription = await _numbers(request, delivery_id, context)
    await _turn(event, subscription, actor_of(request), body, context, "delivery.dead_letter")
    return DeliveryDone(id=delivery_id, done="given_up", reason="it is a dead letter")


async def _turn(event: int, subscription: int, actor: str, body: Reason, context: Context, statement: str) -> None:
    turned = await context.database.fetchval(statement, "default", event, subscription, actor, body.reason)
    if turned is None:
        raise Problem("not-found", _DONE)


async def _numbers(request: Request, delivery_id: str, context: Context) -> tuple[int, int]:
    """Return the event's and the subscription's number, if the request's key may see them; else ``Problem``."""
    numbers = parse_delivery_id(delivery_id)
    if numbers is None:
        raise Problem("not-found", _MISSING)
    event, subscription = numbers
    row = await context.database.fetchrow("event.pair", "default", event, subscription)
    assert row is not None, "the statement always gives one row"
    for pattern in (row["topic"], row["pattern"]):
        if pattern is None:
            require_every_topic(request)
        else:
            require_topic(request, pattern, hidden=_MISSING)
    return event, subscription


def _attempt_out(row: Row, *, shown: bool) -> dict[str, Any]:
    body, headers = (row["response_body"], row["response_headers"]) if shown else (None, None)
    return {
        **row,
        "response_headers": json.loads(headers) if headers else None,
        "response_body": body.decode("utf-8", "replace") if body is not None else None,
    }
