"""/subscriptions/pull and its verbs: fetch deliveries instead of having them POSTed."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.dependency import In
from app.web.api.events.events import payload_out
from app.web.api.operating.replay_start import START_MEANING, Start, start_of
from app.web.api.route.actor import actor_of
from app.web.api.route.audited import audited
from app.web.api.route.context import Context
from app.web.api.route.event_ids import no_such_event
from app.web.api.route.known_subscription import find
from app.web.api.route.refusals import BODY, refusals
from app.web.api.route.remark import REMARK_RULE, Remark
from app.web.api.route.strict_route import strict_router
from app.web.api.subscribing.subscription_contract import SubscriptionOut
from app.web.api.subscribing.subscriptions import pattern_of, subscription_out
from app.web.authentication import require_topic
from app.web.problem import Problem
from app.web.scopes import needs
from hub.filter import FilterError
from hub.subscriptions import NoSuchStart
from runtime.pause import pause
from webhooks.pull import Fetched, PullReceipt, parse_receipt

__all__ = ["router"]

router = strict_router("/subscriptions", "pull")
Receipts = Annotated[list[Annotated[str, Field(max_length=80)]], Field(min_length=1, max_length=500)]
_POLL_SECONDS: Final = (0.02, 0.5)
_RECEIPT = "rcp_42_7_19"


class PullIn(BaseModel):
    """A new pull subscription."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"topic": "orders.#"}]})

    topic: str = Field(description="A topic's name or a pattern.")
    name: str | None = Field(None, max_length=100)
    ordered: bool = Field(False, description="Hand out each key's events one after the other.")
    filter: dict[str, Any] | None = Field(None, description="Filter on content; null: all events.")
    lifetime_seconds: int | None = Field(
        None, ge=60, le=31_536_000, description="The subscription ends after this time without a request; null: never."
    )
    start: Start | None = Field(None, description=f"{START_MEANING} None: from now on.")
    on_end: Literal["dead_letters", "drop"] = Field(
        "dead_letters", description="Whether its open deliveries become dead letters at its end, or are dropped."
    )


class DequeueIn(BaseModel):
    """How much to fetch, and how long to hold it."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"max": 10, "wait_seconds": 20}]})

    max: int = Field(10, ge=1, le=500)
    lease_seconds: float = Field(
        30, ge=1, le=43_200, description="A delivery that is not settled in this time is handed out again."
    )
    wait_seconds: float = Field(0, ge=0, le=20, description="How long to wait for a delivery.")


class PulledEvent(BaseModel):
    """The event as published."""

    id: str
    topic: str
    key: str | None
    sequence: int | None
    accepted_at: datetime
    content_type: str | None
    headers: dict[str, str]
    payload: str | None = Field(description="The body, if it is UTF-8.")
    payload_base64: str | None = Field(description="The body, if it is not.")


class PulledOut(BaseModel):
    """A delivery that the client holds until its lease ends."""

    receipt: str = Field(description="The receipt that settles it.")
    attempts: int
    leased_until: datetime
    event: PulledEvent


_PULLED: dict[str, Any] = {
    "receipt": _RECEIPT,
    "attempts": 1,
    "leased_until": "2026-01-15T09:31:37.120455Z",
    "event": {
        "id": "evt_k3v7q2ha_42",
        "topic": "orders.created",
        "key": "customer-17",
        "sequence": 42,
        "accepted_at": "2026-01-15T09:31:07.120455Z",
        "content_type": "application/json",
        "headers": {},
        "payload": '{"order": 4711}',
        "payload_base64": None,
    },
}


class PulledList(BaseModel):
    """The due deliveries."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_PULLED]}]})

    items: list[PulledOut]


class AckIn(BaseModel):
    """Deliveries that are done."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"receipts": [_RECEIPT]}]})

    receipts: Receipts


class NackIn(AckIn):
    """Deliveries to return."""

    delay_seconds: float = Field(0, ge=0, le=604_800, description="Delay before it is handed out again.")
    reason: Annotated[str | None, Remark(500)] = Field(
        None, description=f"The reason, up to 500 characters, which is stored in its attempts. {REMARK_RULE}"
    )
    dead: bool = Field(False, description="Never hand it out again: it becomes a dead letter.")


class PullExtendIn(AckIn):
    """Deliveries to hold for longer."""

    lease_seconds: float = Field(30, ge=1, le=43_200, description="The length of the new lease, counted from now.")


class SettledOut(BaseModel):
    """The result of one receipt."""

    receipt: str
    state: Literal["done", "stale"] = Field(description="stale: settled already, or fetched by another client since.")


class SettledList(BaseModel):
    """One item for each receipt, in their order."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [{"receipt": _RECEIPT, "state": "done"}]}]})

    items: list[SettledOut]


@router.post(
    "/pull",
    status_code=201,
    summary="Create a pull subscription",
    responses=refusals(*BODY, "invalid-pattern", "invalid-filter", "not-found"),
)
@needs("subscribe", reach="route")
async def create(request: Request, body: PullIn, response: Response, context: In) -> SubscriptionOut:
    """Its deliveries wait for a fetch, so it needs no public address."""
    pattern = pattern_of(body.topic)
    require_topic(request, pattern)
    try:
        made = await context.subscriptions.create_pull(
            pattern,
            ordered=body.ordered,
            wanted=body.filter,
            lifetime_seconds=body.lifetime_seconds,
            start=None if body.start is None else start_of(body.start, context.incarnation),
            actor=actor_of(request),
            drops_at_end=body.on_end == "drop",
            name=body.name,
        )
    except FilterError as error:
        raise Problem("invalid-filter", str(error), parameter="filter") from None
    except NoSuchStart:
        raise no_such_event() from None
    await audited(request, context, "subscription.make", made)
    response.headers["Location"] = f"/subscriptions/{made}"
    return subscription_out(await context.subscriptions.get(made))


@router.post("/{subscription_id}/dequeue", summary="Fetch deliveries", response_model=PulledList,
             responses=refusals(*BODY, "not-found"))  # fmt: skip
@needs("subscribe", reach="route")
async def dequeue(request: Request, subscription_id: str, body: DequeueIn, context: In) -> Response:
    """Oldest first. Settle each within its lease, by `ack` or `nack`; after that it is handed out again."""
    number = await _number(request, subscription_id, context)
    until = time.monotonic() + body.wait_seconds
    seconds, seconds_max = _POLL_SECONDS
    asked = (number, body.max, body.lease_seconds)
    async with context.answers.share() as share:
        while not (found := await share.fetch(lambda room: context.pull.dequeue(*asked, room))):
            if time.monotonic() >= until or context.leaving.is_set():
                break
            await pause(context.leaving, min(seconds, max(0.0, until - time.monotonic())))
            if await request.is_disconnected():
                break
            seconds = min(seconds * 1.5, seconds_max)
        if found and await request.is_disconnected():
            await context.pull.give_back(number, found)  # else nobody would have them until the lease ends
        return await share.list_of(found, _out, lambda one: one.event.size_bytes)


@router.post("/{subscription_id}/ack", summary="Acknowledge deliveries", responses=refusals(*BODY, "not-found"))
@needs("subscribe", reach="route")
async def ack(request: Request, subscription_id: str, body: AckIn, context: In) -> SettledList:
    """Marks them as delivered."""
    number = await _number(request, subscription_id, context)
    receipts = _receipts(number, body.receipts)
    return _settled(body.receipts, await context.pull.ack(number, receipts))


@router.post("/{subscription_id}/nack", summary="Return deliveries", responses=refusals(*BODY, "not-found"))
@needs("subscribe", reach="route")
async def nack(request: Request, subscription_id: str, body: NackIn, context: In) -> SettledList:
    """Hands them out again after the delay, at most 20 times in all, or makes them dead letters."""
    number = await _number(request, subscription_id, context)
    receipts = _receipts(number, body.receipts)
    held = await context.pull.nack(number, receipts, body.delay_seconds, body.reason, dead=body.dead)
    return _settled(body.receipts, held)


@router.post("/{subscription_id}/extend", summary="Hold deliveries for longer", responses=refusals(*BODY, "not-found"))
@needs("subscribe", reach="route")
async def extend(request: Request, subscription_id: str, body: PullExtendIn, context: In) -> SettledList:
    """The lease counts from now."""
    number = await _number(request, subscription_id, context)
    receipts = _receipts(number, body.receipts)
    return _settled(body.receipts, await context.pull.extend(number, receipts, body.lease_seconds))


async def _number(request: Request, identity: str, context: Context) -> int:
    row = await find(request, identity, context)
    if row["protocol"] != "pull":
        raise Problem("not-found", "This subscription is not a pull subscription.")
    number: int = row["id"]
    return number


def _receipts(subscription: int, texts: Sequence[str]) -> list[PullReceipt]:
    """Return the receipts that can be of this subscription; all others are stale."""
    parsed = (parse_receipt(text) for text in dict.fromkeys(texts))
    return [receipt for receipt in parsed if receipt is not None and receipt.subscription_id == subscription]


def _settled(texts: Sequence[str], held: Collection[PullReceipt]) -> SettledList:
    done = {str(receipt) for receipt in held}
    return SettledList.model_validate(
        {"items": [{"receipt": text, "state": "done" if text in done else "stale"} for text in texts]}
    )


def _out(one: Fetched) -> dict[str, Any]:
    text, encoded = payload_out(one.event.payload)
    names = ("topic", "key", "sequence", "accepted_at", "content_type", "headers")
    event = {name: getattr(one.event, name) for name in names}
    return {
        "receipt": str(one.receipt),
        "attempts": one.attempts,
        "leased_until": one.leased_until,
        "event": {**event, "id": one.event.event_id, "payload": text, "payload_base64": encoded},
    }
