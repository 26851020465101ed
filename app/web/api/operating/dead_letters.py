"""/dead-letters: deliveries and records that were given up, of subscriptions and brokers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Query, Request
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.dependency import In
from app.web.api.events.event_search import Since, Until, id_range
from app.web.api.operating.incidents import incident_number, known_incident
from app.web.api.route.actor import Reason, Reasoned, actor_of
from app.web.api.route.context import Context
from app.web.api.route.known_subscription import find
from app.web.api.route.paging import Paged
from app.web.api.route.refusals import ACT, refusals
from app.web.api.route.strict_route import strict_router
from app.web.authentication import may_reach_topic, require_topic
from app.web.problem import Problem
from app.web.scopes import needs
from db.pool import Row
from event.identity import format_event_id
from webhooks.condition import DeadKind, dead_letter_reason
from webhooks.delivery_id import format_delivery_id, parse_delivery_id

__all__ = ["router"]

router = strict_router("/dead-letters", "dead letters")
Kind = Literal["refused", DeadKind]
_RECORD = re.compile(r"dead_(kafka|amqp)_([0-9]{1,18})")
_LARGEST = 2**63 - 1
_MISSING = "There is no such dead letter; `hookwire deadletters list` and GET /dead-letters have them."
_STATEMENTS = {
    "get": ("dead_letter.get_delivery", "dead_letter.get_record"),
    "retry": ("dead_letter.retry_delivery", "dead_letter.retry_record"),
    "purge": ("dead_letter.purge_delivery", "dead_letter.purge_record"),
}
_VERB = refusals(*ACT)
_EXAMPLE: dict[str, Any] = {
    "id": "dlv_42_7",
    "sink": "webhooks",
    "event_id": "evt_k3v7q2ha_42",
    "topic": "orders.created",
    "key": "customer-17",
    "subscription_id": "sub_3f1c0a9be2d45c7780aa",
    "callback": "http://127.0.0.1:9000/hook",
    "kind": "exhausted",
    "attempts": 10,
    "last_status": 500,
    "last_outcome": "server_error",
    "detail": None,
    "reason": "given up: its attempts are used up; the last one: server_error 500",
    "incident_id": "inc_3",
    "died_at": "2026-01-18T13:06:07.131002Z",
}


class DeadLetterOut(BaseModel):
    """One delivery, or one broker's record, that was given up."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    id: str = Field(description="dlv_<event>_<subscription> of a webhook, dead_<sink>_<event> of a broker.")
    sink: Literal["kafka", "amqp", "webhooks"]
    event_id: str
    topic: str | None = Field(description="Null if the event was deleted.")
    key: str | None
    subscription_id: str | None
    callback: str | None
    kind: Kind = Field(
        description="refused: by the broker, and not sent again by its policy. given_up: by a person. The other kinds "
        "are those of webhooks."
    )
    attempts: int
    last_status: int | None
    last_outcome: str | None
    detail: str | None
    reason: str = Field(description="How it ended, in one sentence.")
    incident_id: str | None = Field(description="The incident of its last failure; null: none, or not grouped yet.")
    died_at: datetime


class DeadLetterPage(BaseModel):
    """A page of dead letters, newest event first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_EXAMPLE], "next_cursor": None}]})

    items: list[DeadLetterOut]
    next_cursor: str | None


class DeadLetterDone(BaseModel):
    """The action and its dead letter."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"id": "dlv_42_7", "done": "retried"}]})

    id: str
    done: Literal["retried", "purged"]


def _out(row: Row, incarnation: str) -> DeadLetterOut:
    names = ("topic", "key", "kind", "attempts", "last_status", "last_outcome", "detail", "died_at", "sink")
    webhook = row["sink"] == "webhooks"
    identity = (
        format_delivery_id(row["event_id"], row["subscription"]) if webhook else f"dead_{row['sink']}_{row['event_id']}"
    )
    return DeadLetterOut.model_validate(
        {name: row[name] for name in names}
        | {
            "id": identity,
            "event_id": format_event_id(incarnation, row["event_id"]),
            "subscription_id": row["subscription_id"],
            "callback": row["callback"],
            "reason": dead_letter_reason(row),
            "incident_id": f"inc_{row['incident_id']}" if row["incident_id"] is not None else None,
        }
    )


@router.get("", summary="List dead letters", responses=refusals("invalid-cursor", "invalid-parameter", "not-found"))
@needs("read", reach="route")
async def list_dead_letters(
    request: Request,
    context: In,
    paging: Paged,
    sink: Annotated[Literal["kafka", "amqp", "webhooks"] | None, Query()] = None,
    subscription_id: Annotated[str | None, Query(max_length=60, pattern=r"^[ -~]*$")] = None,
    kind: Annotated[Kind | None, Query()] = None,
    incident_id: Annotated[str | None, Query(pattern=r"^inc_[0-9]{1,18}$")] = None,
    since: Since = None,
    until: Until = None,
) -> DeadLetterPage:
    """Newest event first; `Link: rel="next"` and `next_cursor` lead to the next page. `since` and `until` refer to the
    event. Without `kind`, deliveries that ended with their subscription or their contents are left out.

    A key for some topics gets those of subscriptions and records within these. A page may then hold fewer items, or
    none.
    """
    subscription = None
    if subscription_id is not None:
        subscription = (await find(request, subscription_id, context))["id"]
    if incident_id is not None:
        await known_incident(request, incident_id, context)
    incident = None if incident_id is None else incident_number(incident_id)
    low, high = await id_range(context, since, until)
    before = paging.after(high, 0 if until is not None else _LARGEST, "")

    async def read(after: Sequence[Any], most: int) -> tuple[Sequence[Row], list[str | int] | None]:
        rows = await context.database.fetch_filtered(
            "dead_letter.page", "default", sink, subscription, kind, *after, most + 1, low, incident
        )
        return rows[:most], _place(rows[most - 1]) if len(rows) > most else None

    rows, next_cursor = await paging.reached(before, read, lambda row: row["pattern"], _place)
    return DeadLetterPage(items=[_out(row, context.incarnation) for row in rows], next_cursor=next_cursor)


def _place(row: Row) -> list[str | int]:
    return [row["event_id"], row["subscription"], row["sink"]]


@router.get("/{dead_letter}", summary="Get a dead letter", responses=refusals("not-found"))
@needs("read", reach="route")
async def show(dead_letter: str, request: Request, context: In) -> DeadLetterOut:
    """Includes the reason. Its attempts are at `/deliveries/{id}/attempts`."""
    return _out(await _find(dead_letter, request, context), context.incarnation)


async def _find(dead_letter: str, request: Request, context: Context) -> Row:
    """Return the row of a dead letter that the request's key reaches; else ``Problem``."""
    row = await context.database.fetchrow(*_named(dead_letter, "get"))
    if row is None:
        raise Problem("not-found", _MISSING)
    require_topic(request, row["pattern"], hidden=_MISSING)
    return row


@router.post("/{dead_letter}/retry", summary="Retry a dead letter", responses=_VERB)
@needs("operate", reach="route")
async def retry(dead_letter: str, body: Reasoned, request: Request, context: In) -> DeadLetterDone:
    """Sends it again, marked as a replay, with a new schedule. It comes later than events that followed it."""
    await _do(dead_letter, "retry", body, request, context)
    return DeadLetterDone(id=dead_letter, done="retried")


@router.post("/{dead_letter}/purge", summary="Delete a dead letter", responses=_VERB)
@needs("operate", reach="route")
async def purge(dead_letter: str, body: Reasoned, request: Request, context: In) -> DeadLetterDone:
    """Deletes the dead letter. The event itself stays until its retention ends, and can still be replayed."""
    await _do(dead_letter, "purge", body, request, context)
    return DeadLetterDone(id=dead_letter, done="purged")


async def _do(dead_letter: str, verb: str, body: Reason, request: Request, context: Context) -> None:
    if not may_reach_topic(request, None):
        await _find(dead_letter, request, context)
    done = await context.database.fetchval(*_named(dead_letter, verb), actor_of(request), body.reason)
    if done is None:
        raise Problem("not-found", "There is no such dead letter, or its event is gone or erased.")


def _named(dead_letter: str, verb: str) -> tuple[str, str, int, int | str]:
    """Return the statement of a verb, and the kind of its dead letter."""
    of_delivery, of_record = _STATEMENTS[verb]
    if delivery := parse_delivery_id(dead_letter):
        return of_delivery, "default", *delivery
    if match := _RECORD.fullmatch(dead_letter):
        return of_record, "default", int(match[2]), match[1]
    raise Problem("not-found", _MISSING)
