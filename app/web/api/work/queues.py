"""/queues: queues, their settings, counts and dead letters, and consumers of copies."""

from __future__ import annotations

import secrets
from datetime import datetime
from typing import Annotated, Any

from fastapi import Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.types import Scope

from app.web.api.dependency import In
from app.web.api.events.events import payload_out
from app.web.api.route.actor import Reason, Reasoned, actor_of
from app.web.api.route.context import Context
from app.web.api.route.effect import tell_without_effect
from app.web.api.route.moment import ZonedMoment
from app.web.api.route.paging import Paged, PagedByName
from app.web.api.route.refusals import BODY, refusals
from app.web.api.route.strict_route import strict_router
from app.web.api.work.queue_refusal import queue_name, refused_as_problems
from app.web.authentication import key_id_of, may_reach_queue, shows_payloads
from app.web.problem import Problem
from app.web.scopes import Need, needs, needs_by
from db.pool import Row

__all__ = ["router"]

router = strict_router("/queues", "queues", "invalid-parameter")
Queue = Annotated[str, Path(description="1 to 200 characters of `A-Z a-z 0-9 . _ -` in dot-separated words.")]


class QueueSettings(BaseModel):
    """How a queue treats its messages."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"history": True, "lease_seconds": 60}]})

    moves: bool = Field(True, description="Receivers compete: each message goes to one of them.")
    copies: bool = Field(False, description="Each named consumer reads every message.")
    history: bool = Field(False, description="Accepted messages go into the archive.")
    lease_seconds: float = Field(30, ge=1, le=43_200, description="Default lease of a receiver.")
    deliveries_max: int = Field(
        5, ge=1, le=1000, description="The number of deliveries after which a message becomes a dead letter."
    )
    retention_days: int = Field(
        14, ge=1, le=3660, description="Retention of the archive, the copies and the dead letters."
    )


class QueueCounts(BaseModel):
    """The contents of a queue, counted."""

    available: int
    claimed: int
    delayed: int
    dead: int
    oldest_at: datetime | None = Field(description="When the oldest available message was submitted.")


_QUEUE: dict[str, Any] = {
    "queue": "mail", "moves": True, "copies": False, "history": True, "lease_seconds": 30.0, "deliveries_max": 5,
    "retention_days": 14, "paused": False, "graduated": False, "owner": None, "expires_at": None,
    "created_at": "2026-01-15T09:30:00Z",
    "counts": {"available": 3, "claimed": 1, "delayed": 0, "dead": 0, "oldest_at": "2026-01-15T09:31:07Z"},
}  # fmt: skip
_DEAD: dict[str, Any] = {
    "id": "msg_42", "created_at": "2026-01-15T09:31:07Z", "died_at": "2026-01-15T10:31:07Z",
    "reason": "received 5 times and never settled", "attempts": 5, "content_type": "application/json", "type": None,
    "key": None, "payload": '{"order": 4711}', "payload_base64": None,
}  # fmt: skip


class QueueOut(QueueSettings):
    """A queue."""

    model_config = ConfigDict(extra="ignore", json_schema_extra={"examples": [_QUEUE]})

    queue: str
    paused: bool
    graduated: bool = Field(description="The messages are in a table of their own.")
    owner: str | None
    expires_at: datetime | None = Field(description="End of a temporary queue; every receive postpones it.")
    created_at: datetime
    counts: QueueCounts


class QueuePage(BaseModel):
    """A page of queues by name."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_QUEUE], "next_cursor": None}]})

    items: list[QueueOut]
    next_cursor: str | None


class TemporaryIn(BaseModel):
    """A queue for replies: its owner removes it, or it ends after its lifetime without a receive."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"lifetime_seconds": 300}]})

    lifetime_seconds: int = Field(300, ge=1, le=86_400)
    owner: str | None = Field(None, max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$", description="For people.")


class DeadMessageOut(BaseModel):
    """A message that was given up."""

    id: str
    created_at: datetime
    died_at: datetime
    reason: str
    attempts: int
    content_type: str | None
    type: str | None
    key: str | None
    payload: str | None
    payload_base64: str | None


class DeadMessagePage(BaseModel):
    """Dead letters of a queue, oldest id first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_DEAD], "next_cursor": None}]})

    items: list[DeadMessageOut]
    next_cursor: str | None


class ChosenIn(Reason):
    """Selects dead letters; null: the oldest 500."""

    ids: list[Annotated[str, Field(pattern=r"^msg_[0-9]{1,18}$")]] | None = Field(None, min_length=1, max_length=500)


class ChosenOut(BaseModel):
    """The ids that existed."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"ids": ["msg_42"]}]})

    ids: list[str]


class ConsumerIn(BaseModel):
    """The start of a new consumer."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"since": None}]})

    since: ZonedMoment | None = Field(
        None, description="Begin with the copies that the queue still has since then; null: from now on."
    )


class ConsumerOut(BaseModel):
    """A consumer of copies."""

    name: str
    created_at: datetime
    leased_until: datetime | None = Field(
        validation_alias="lease_until", description="One reader holds the next batch until this time."
    )


class ConsumerList(BaseModel):
    """The consumers of a queue, by name, at most 500."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"items": [{"name": "audit", "created_at": "2026-01-15T09:31:07Z", "leased_until": None}]}]
        }
    )

    items: list[ConsumerOut]


def _removal(scope: Scope) -> Need:
    """Return the need of a removal: users of a temporary queue may remove it."""
    queue = scope["path_params"]["queue"]
    return Need(("work",) if queue.startswith("tmp.") else ("admin",), reach="queue")


@router.get("", summary="List queues", responses=refusals("invalid-cursor"))
@needs("read", reach="route")
async def list_queues(request: Request, context: In, paging: PagedByName) -> QueuePage:
    """By name, with counts. A queue that an SQL transaction has just created appears within a minute."""
    rows = await context.database.fetch("queue.list", *paging.after(""), paging.limit + 1)
    mine = [row for row in rows[: paging.limit] if may_reach_queue(request, row["name"])]
    items, next_cursor = await _queues_out(mine, context), paging.next_of(rows, "name")
    return QueuePage.model_validate({"items": items, "next_cursor": next_cursor})


@router.post("", status_code=201, summary="Create a temporary queue", responses=refusals(*BODY, "too-many-queues"))
@needs("work", reach="route")
async def make_temporary(request: Request, body: TemporaryIn, response: Response, context: In) -> QueueOut:
    """The hub chooses its name. Every receive postpones its end; after its end receivers get 404."""
    name, most = f"tmp.{secrets.token_hex(10)}", context.settings.temporary_queues_max
    if not may_reach_queue(request, name):
        raise Problem("forbidden", "The key is not for temporary queues; their names begin with tmp.")
    row = await context.database.fetchrow("queue.make_temporary", name, body.owner, body.lifetime_seconds, most)
    if row is None:
        raise Problem("too-many-queues", f"There are {most} temporary queues already.")
    response.headers["Location"] = f"/queues/{name}"
    [made] = await _queues_out([row], context)
    return QueueOut.model_validate(made)


@router.get("/{queue}", summary="A queue", responses=refusals("unknown-queue"))
@needs("read", reach="queue")
async def get(queue: Queue, context: In) -> QueueOut:
    """Settings and counts."""
    [found] = await _queues_out([await _known(queue, context)], context)
    return QueueOut.model_validate(found)


async def _known(queue: str, context: Context) -> Row:
    """Return the row of the queue, or raise ``Problem``. Foreign transactions may have made it without a row."""
    name = queue_name(queue)
    row = await context.database.fetchrow("queue.get", name)
    if row is None:
        await context.database.execute("queue.adopt")
        row = await context.database.fetchrow("queue.get", name)
    if row is None:
        raise Problem("unknown-queue", f"There is no queue {name}.")
    return row


@router.put("/{queue}", summary="Set a queue's settings", responses=refusals(*BODY))
@needs("admin", reach="queue")
async def put(queue: Queue, body: QueueSettings, context: In) -> QueueOut:
    """Creates the queue if there is none. The settings apply from now on."""
    if not (body.moves or body.copies):
        raise Problem("invalid-parameter", "moves, copies, or both must be true.", parameter="moves")
    if (name := queue_name(queue)).startswith("tmp."):
        raise Problem("invalid-parameter", "Only temporary queues have names that begin with tmp.")
    row = await context.database.fetchrow(
        "queue.put", name, body.moves, body.copies, body.history, body.lease_seconds, body.deliveries_max,
        body.retention_days,
    )  # fmt: skip
    assert row is not None, "INSERT ... RETURNING returns its row"
    [made] = await _queues_out([row], context)
    return QueueOut.model_validate(made)


@router.delete("/{queue}", status_code=204, summary="Remove a queue", responses=refusals("unknown-queue"))
@needs_by(_removal)
async def remove(request: Request, queue: Queue, context: In) -> None:
    """Removes it with its contents, except its archive. Waiting receivers get an empty answer, or 404."""
    if not await context.database.fetch("queue.remove", queue_name(queue), actor_of(request), None):
        raise Problem("unknown-queue", f"There is no queue {queue}.")


@router.post("/{queue}/pause", status_code=204, summary="Pause a queue", responses=refusals("unknown-queue"))
@needs("operate", reach="queue")
async def pause(request: Request, response: Response, queue: Queue, body: Reasoned, context: In) -> None:
    """Nothing is handed out until it is resumed; submitting and settling go on."""
    await _pause(request, response, queue, body, context, paused=True)


@router.post("/{queue}/resume", status_code=204, summary="Resume a queue", responses=refusals("unknown-queue"))
@needs("operate", reach="queue")
async def resume(request: Request, response: Response, queue: Queue, body: Reasoned, context: In) -> None:
    """Ends a pause."""
    await _pause(request, response, queue, body, context, paused=False)


@router.get("/{queue}/dead", summary="List dead letters of a queue", response_model=DeadMessagePage,
            responses=refusals("invalid-cursor"))  # fmt: skip
@needs("read", reach="queue")
async def list_dead(request: Request, queue: Queue, context: In, paging: Paged) -> Response:
    """Payloads are null for a key without the scope `payloads`."""
    [after] = paging.after(0)
    name, shown = queue_name(queue), shows_payloads(request)
    return await context.answers.page(
        paging, lambda room: context.jobs.queues.dead(name, paging.limit + 1, after, room), lambda row: [row["id"]],
        lambda row: _dead_out(row, shown=shown),
    )  # fmt: skip


@router.post("/{queue}/dead/redrive", summary="Return dead letters to their queue",
             responses=refusals(*BODY, "unknown-queue"))  # fmt: skip
@needs("operate", reach="queue")
async def redrive(request: Request, queue: Queue, body: ChosenIn, context: In) -> ChosenOut:
    """Returns them to their old places and counts their deliveries anew. At most 500 at a time."""
    ids = await context.jobs.queues.redrive(queue_name(queue), _numbers(body), actor_of(request), body.reason)
    if not ids:
        await _known(queue, context)
    return ChosenOut(ids=[f"msg_{number}" for number in ids])


@router.post("/{queue}/dead/purge", summary="Delete dead letters",
             responses=refusals(*BODY, "unknown-queue"))  # fmt: skip
@needs("operate", reach="queue")
async def purge_dead(request: Request, queue: Queue, body: ChosenIn, context: In) -> ChosenOut:
    """At most 500 at a time."""
    ids = await context.jobs.queues.purge_dead(queue_name(queue), _numbers(body), actor_of(request), body.reason)
    if not ids:
        await _known(queue, context)
    return ChosenOut(ids=[f"msg_{number}" for number in ids])


@router.get("/{queue}/consumers", summary="List consumers of copies")
@needs("read", reach="queue")
async def list_consumers(queue: Queue, context: In) -> ConsumerList:
    """By name."""
    rows = await context.database.fetch("consumer.list", queue_name(queue))
    return ConsumerList.model_validate({"items": [dict(row) for row in rows]})


@router.put("/{queue}/consumers/{consumer}", status_code=204, summary="Register a consumer of copies",
            responses=refusals(*BODY, "unknown-queue"))  # fmt: skip
@needs("work", reach="queue")
async def register(request: Request, queue: Queue, consumer: str, body: ConsumerIn, context: In) -> None:
    """It misses no message that is committed after this, up to the queue's retention. Repeating it changes nothing."""
    since = body.since if body.since is not None else datetime.max
    with refused_as_problems():
        await context.jobs.queues.make_known(queue_name(queue), key_id_of(request))
        await context.database.fetchval("consumer.register", queue_name(queue), queue_name(consumer), since)


@router.delete("/{queue}/consumers/{consumer}", status_code=204, summary="Remove a consumer of copies",
               responses=refusals("not-found"))  # fmt: skip
@needs("work", reach="queue")
async def remove_consumer(queue: Queue, consumer: str, context: In) -> None:
    """Deletes its position; the queue goes on keeping copies."""
    if not await context.database.execute("consumer.remove", queue_name(queue), queue_name(consumer)):
        raise Problem("not-found", f"The queue {queue} has no consumer {consumer}.")


async def _pause(
    request: Request, response: Response, queue: str, body: Reason, context: Context, *, paused: bool
) -> None:
    name = queue_name(queue)
    row = await context.database.fetchrow("queue.pause", name, paused, actor_of(request), body.reason)
    if row is None:
        raise Problem("unknown-queue", f"There is no queue {name}.")
    if not row["has_effect"]:
        state = "paused already" if paused else "not paused"
        tell_without_effect(request, response, "pause" if paused else "resume", f"the queue {name} was {state}")


async def _queues_out(rows: list[Row], context: Context) -> list[dict[str, Any]]:
    counts = await context.database.fetch("queue.counts", [row["name"] for row in rows]) if rows else []
    of_queue = {row["queue"]: dict(row) for row in counts}
    return [{**row, "queue": row["name"], "counts": of_queue[row["name"]]} for row in rows]


def _numbers(body: ChosenIn) -> list[int] | None:
    return [int(text.removeprefix("msg_")) for text in body.ids] if body.ids is not None else None


def _dead_out(row: Row, *, shown: bool) -> dict[str, Any]:
    text, encoded = payload_out(row["payload"]) if shown else (None, None)
    names = ("created_at", "died_at", "reason", "content_type", "type", "key")
    return {
        **{name: row[name] for name in names},
        "id": f"msg_{row['id']}",
        "attempts": row["deliveries"],
        "payload": text,
        "payload_base64": encoded,
    }
