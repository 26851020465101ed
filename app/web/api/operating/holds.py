"""/holds: keys and topics of a broker that wait because a record was refused."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Body, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.dependency import In
from app.web.api.route.actor import Reason, Reasoned, actor_of
from app.web.api.route.context import Context
from app.web.api.route.paging import Paged
from app.web.api.route.refusals import ACT, refusals
from app.web.api.route.strict_route import strict_router
from app.web.authentication import may_reach_topic, require_topic
from app.web.problem import Problem
from app.web.scopes import needs
from db.pool import Row
from event.identity import format_event_id

__all__ = ["router"]

router = strict_router("/holds", "holds")
HoldId = Annotated[str, Path(pattern=r"^hold_[0-9]{1,18}$", examples=["hold_3"])]
_GIVE_UP_BATCH = 5_000
_MISSING = "There is no such hold; it may have been lifted."
_VERB = refusals(*ACT)
_EXAMPLE: dict[str, Any] = {
    "id": "hold_3",
    "sink": "kafka",
    "topic": "orders.created",
    "scope": "key",
    "key": "customer-17",
    "reason": "too_large",
    "detail": "2000000 bytes; the Kafka topic orders.created takes 1048588; raise its max.message.bytes, or send less",
    "records": 12,
    "attempts": 4,
    "since": "2026-01-15T09:31:07.131002Z",
    "next_attempt_at": "2026-01-15T09:31:23.131002Z",
}


class HoldOut(BaseModel):
    """A key or topic that waits, and the reason."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    id: str
    sink: Literal["kafka", "amqp", "webhooks"]
    topic: str
    scope: Literal["key", "record", "topic"] = Field(description="record: one event without a key.")
    key: str | None
    reason: str
    detail: str
    records: int = Field(description="Number of waiting records, counted up to 10,000.")
    attempts: int
    since: datetime
    next_attempt_at: datetime = Field(description="Time of the next try of its oldest record.")


class HoldDetail(HoldOut):
    """A hold with the first of its waiting events."""

    model_config = ConfigDict(json_schema_extra={"examples": [{**_EXAMPLE, "oldest": ["evt_k3v7q2ha_42"]}]})

    oldest: list[str] = Field(description="The first events that wait, up to twenty; GET /events/{id} tells more.")


class HoldPage(BaseModel):
    """A page of holds in the order of their creation."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_EXAMPLE], "next_cursor": None}]})

    items: list[HoldOut]
    next_cursor: str | None


class GiveUpIn(Reason):
    """Selects the records to give up, with the reason."""

    all: bool = Field(False, description="Every record that waits, not only the oldest.")


class VerbOut(BaseModel):
    """Number of records that were given up."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"id": "hold_3", "dead_letters": 1}]})

    id: str
    dead_letters: int


def _out(row: Row) -> dict[str, Any]:
    scope = "topic" if row["key"] == "" else "record" if row["key"].startswith("\x1f") else "key"
    return {
        **row,
        "id": f"hold_{row['id']}",
        "scope": scope,
        "key": row["key"] if scope == "key" else None,
        "next_attempt_at": row["probe_at"],
    }


def _number(hold: str) -> int:
    return int(hold.removeprefix("hold_"))


@router.get("", summary="List holds", responses=refusals("invalid-cursor", "invalid-parameter"))
@needs("read", reach="route")
async def list_holds(
    context: In,
    paging: Paged,
    sink: Annotated[Literal["kafka", "amqp", "webhooks"] | None, Query()] = None,
    topic: Annotated[str | None, Query(max_length=249, pattern=r"^[A-Za-z0-9._-]*$")] = None,
) -> HoldPage:
    """Oldest first; `Link: rel="next"` and `next_cursor` lead to the next page.

    A key for some topics gets those of these topics. A page may then hold fewer items, or none.
    """

    async def read(after: Sequence[Any], most: int) -> tuple[Sequence[Row], list[str | int] | None]:
        rows = await context.database.fetch("hold.page", "default", sink, topic, after[0], most + 1)
        return rows[:most], [rows[most - 1]["id"]] if len(rows) > most else None

    rows, next_cursor = await paging.reached(paging.after(0), read, lambda row: row["topic"], lambda row: [row["id"]])
    return HoldPage.model_validate({"items": [_out(row) for row in rows], "next_cursor": next_cursor})


@router.get("/{hold}", summary="Get a hold", responses=refusals("not-found", "invalid-parameter"))
@needs("read", reach="route")
async def show(hold: HoldId, request: Request, context: In) -> HoldDetail:
    """Shows the reason and the oldest events that wait."""
    row = await _find(hold, request, context)
    oldest = [format_event_id(context.incarnation, number) for number in row["oldest"]]
    return HoldDetail.model_validate(_out(row) | {"oldest": oldest})


async def _find(hold: str, request: Request, context: Context) -> Row:
    """Return the row of a hold that the request's key reaches; else ``Problem``."""
    row = await context.database.fetchrow("hold.get", "default", _number(hold))
    if row is None:
        raise Problem("not-found", _MISSING)
    require_topic(request, row["topic"], hidden=_MISSING)
    return row


async def _require_reach(hold: str, request: Request, context: Context) -> None:
    if not may_reach_topic(request, None):
        await _find(hold, request, context)


@router.post("/{hold}/retry", summary="Retry a hold now", responses=_VERB)
@needs("operate", reach="route")
async def retry(hold: HoldId, body: Reasoned, request: Request, context: In) -> VerbOut:
    """Sends its oldest record at once. When the broker accepts it, the others follow in order."""
    await _require_reach(hold, request, context)
    done = await context.database.fetchval("hold.retry", "default", _number(hold), actor_of(request), body.reason)
    if done is None:
        raise Problem("not-found", _MISSING)
    return VerbOut(id=hold, dead_letters=0)


@router.post("/{hold}/give-up", summary="Give up the oldest record of a hold, or all", responses=_VERB)
@needs("operate", reach="route")
async def give_up(
    hold: HoldId, body: Annotated[GiveUpIn, Body(default_factory=GiveUpIn)], request: Request, context: In
) -> VerbOut:
    """The oldest record becomes a dead letter, and the next one is tried at once.

    With `all`, every waiting record becomes a dead letter and the hold is lifted. A record that waited behind the
    refused record of its key has the outcome `purged_with_key`.
    """
    if body.all:
        return await purge(hold, body, request, context)
    return await skip(hold, body, request, context)


@router.post("/{hold}/skip", include_in_schema=False)  # the former name (ADR 51)
@needs("operate", reach="route")
async def skip(hold: HoldId, body: Reasoned, request: Request, context: In) -> VerbOut:
    """Give up the oldest record."""
    await _require_reach(hold, request, context)
    row = await _give_up(hold, body, request, context, 1)
    return VerbOut(id=hold, dead_letters=_there(row)["records"])


@router.post("/{hold}/purge", include_in_schema=False)  # the former name (ADR 51)
@needs("operate", reach="route")
async def purge(hold: HoldId, body: Reasoned, request: Request, context: In) -> VerbOut:
    """Give up every record."""
    await _require_reach(hold, request, context)
    row = _there(await _give_up(hold, body, request, context, _GIVE_UP_BATCH))
    given_up: int = row["records"]
    while row["chosen"] == _GIVE_UP_BATCH:
        again = await _give_up(hold, body, request, context, _GIVE_UP_BATCH, with_refused=False)
        if again is None:
            break  # the hold was empty, and the relay has lifted it
        given_up, row = given_up + again["records"], again
    return VerbOut(id=hold, dead_letters=given_up)


async def _give_up(
    hold: str, body: Reason, request: Request, context: Context, most: int, *, with_refused: bool = True
) -> Row | None:
    """Return how many of the oldest records were chosen, and how many given up; None when there is no such hold.
    ``with_refused``: the oldest record is the refused one.
    """
    row = await context.database.fetchrow(
        "hold.skip", "default", _number(hold), actor_of(request), body.reason, most, "hold.give_up", with_refused
    )
    return row if row is not None and row["holds"] else None


def _there(row: Row | None) -> Row:
    if row is None:
        raise Problem("not-found", _MISSING)
    return row
