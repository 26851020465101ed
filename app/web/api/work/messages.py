"""/queues/{queue}/messages, /receive, /accept, /reject, /extend: the message queue."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from fastapi import Header, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.dependency import In
from app.web.api.events.events import payload_out
from app.web.api.route.context import Context
from app.web.api.route.long_poll import long_poll
from app.web.api.route.paging import PAGE_DEFAULT, Limit, Paging
from app.web.api.route.refusals import BODY, refusals
from app.web.api.route.remark import REMARK_RULE, Remark
from app.web.api.route.strict_route import strict_router
from app.web.api.work.queue_refusal import queue_name, refused_as_problems
from app.web.authentication import key_id_of, shows_payloads
from app.web.header_text import header_text, utf8_text
from app.web.problem import Problem
from app.web.publishing.ndjson import MEDIA_TYPE, lines_of
from app.web.scopes import needs
from event.strict_json import StrictJsonError, loads
from jobs.queues.message import Message, MessageDraft, Received
from jobs.queues.receipt import ClaimReceipt, parse_receipt
from runtime.large_body import beside_loop_if_large

__all__ = ["router"]

router = strict_router("/queues", "queues", "unknown-queue", "invalid-parameter")
Queue = Annotated[str, Path(description="1 to 200 characters of `A-Z a-z 0-9 . _ -` in dot-separated words.")]
Receipts = Annotated[list[Annotated[str, Field(max_length=80)]], Field(min_length=1, max_length=500)]
_HEADER_PREFIX: Final = "hookwire-header-"
_RECEIPT = "msg_42_19"


class SubmittedOut(BaseModel):
    """The ids of the stored messages, in the order of the body."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"queue": "mail", "ids": ["msg_42"]}]})

    queue: str
    ids: list[str]


class FilterIn(BaseModel):
    """Selects messages; all others stay in the queue. The filter examines the first 1,000 available messages of its
    `type`; without `type`, those of its `key`; without both, those of the queue.
    """

    model_config = ConfigDict(extra="forbid")

    type: str | None = Field(None, max_length=200)
    key: str | None = Field(None, max_length=1024)
    headers: dict[str, str] | None = Field(
        None, max_length=64, description="The message has these headers; it may have others."
    )
    priority_min: int | None = Field(None, ge=-32_768, le=32_767)
    age_seconds_min: float | None = Field(None, ge=0, le=315_360_000, description="Not for a consumer of copies.")


class ReceiveIn(BaseModel):
    """How many messages to receive, and how long to hold them."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"max": 10, "wait_seconds": 20}]})

    max: int = Field(1, ge=1, le=500)
    lease_seconds: float | None = Field(None, ge=1, le=43_200, description="null: the queue's own.")
    wait_seconds: float = Field(0, ge=0, le=20, description="How long to wait for a message.")
    filter: FilterIn | None = None
    consumer: str | None = Field(
        None, max_length=200, description="Read copies as this consumer, instead of competing for messages."
    )


class MessageOut(BaseModel):
    """The message as submitted."""

    id: str
    created_at: datetime
    content_type: str | None
    headers: dict[str, str]
    type: str | None
    key: str | None
    priority: int
    payload: str | None = Field(description="The body, if it is UTF-8.")
    payload_base64: str | None = Field(description="The body, if it is not.")


class ReceivedOut(BaseModel):
    """A message that the receiver holds until its lease ends."""

    receipt: str = Field(description="The receipt that settles it.")
    attempts: int
    leased_until: datetime
    message: MessageOut


_MESSAGE: dict[str, Any] = {
    "id": "msg_42",
    "created_at": "2026-01-15T09:31:07.120455Z",
    "content_type": "application/json",
    "headers": {},
    "type": None,
    "key": None,
    "priority": 0,
    "payload": '{"order": 4711}',
    "payload_base64": None,
}
_RECEIVED: dict[str, Any] = {
    "receipt": _RECEIPT,
    "attempts": 1,
    "leased_until": "2026-01-15T09:31:37.120455Z",
    "message": _MESSAGE,
}


class ReceivedList(BaseModel):
    """The messages, oldest first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_RECEIVED]}]})

    items: list[ReceivedOut]


class BrowsedList(BaseModel):
    """Available messages, untouched."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_MESSAGE], "next_cursor": None}]})

    items: list[MessageOut]
    next_cursor: str | None


class AcceptIn(BaseModel):
    """Messages that are done."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"receipts": [_RECEIPT]}]})

    receipts: Receipts


class RejectIn(AcceptIn):
    """Messages to return."""

    delay_seconds: float = Field(0, ge=0, le=604_800, description="Delay before it is handed out again; 0: at once.")
    reason: Annotated[str | None, Remark(500)] = Field(None, description=f"Up to 500 characters. {REMARK_RULE}")
    dead: bool = Field(False, description="Never hand it out again: it becomes a dead letter.")
    count: bool = Field(True, description="false: this delivery does not count towards `deliveries_max`.")


class ExtendIn(AcceptIn):
    """Messages to hold for longer."""

    lease_seconds: float = Field(30, ge=1, le=43_200, description="The length of the new lease, counted from now.")


class ReceiptOut(BaseModel):
    """The result of one receipt."""

    receipt: str
    state: Literal["done", "stale"] = Field(description="stale: settled already, or received by another client since.")


class ReceiptList(BaseModel):
    """One item for each receipt, in their order."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [{"receipt": _RECEIPT, "state": "done"}]}]})

    items: list[ReceiptOut]


_ANY_BODY = {
    "requestBody": {
        "required": False,
        "description": "The message, any content type, also empty; or with `application/x-ndjson` up to 1,000 JSON"
        " messages, one a line, stored all or none.",
        "content": {
            "*/*": {"schema": {}},
            MEDIA_TYPE: {"schema": {"type": "string"}, "example": '{"n": 1}\n{"n": 2}\n'},
        },
    }
}


@router.post(
    "/{queue}/messages",
    status_code=201,
    summary="Submit a message",
    openapi_extra=_ANY_BODY,
    responses=refusals("malformed-batch", "body-too-large", "invalid-parameter", "invalid-header", "outcome-unknown"),
)
@needs("enqueue", reach="queue")
async def submit(
    request: Request,
    queue: Queue,
    context: In,
    message_type: Annotated[str | None, Header(alias="Hookwire-Type", description="For filters.")] = None,
    key: Annotated[str | None, Header(alias="Hookwire-Key", description="For filters.")] = None,
    priority: Annotated[int, Header(alias="Hookwire-Priority", ge=-32_768, le=32_767)] = 0,
    delay_seconds: Annotated[float, Header(alias="Hookwire-Delay-Seconds", ge=0, le=315_360_000)] = 0,
) -> SubmittedOut:
    """The messages are stored before the answer. `Hookwire-Header-<Name>: <value>` becomes the message's header
    `<name>`.
    """
    name, body = queue_name(queue), await request.body()
    headers = _own_headers(request)
    key = key and utf8_text("hookwire-key", key.encode("latin-1"))
    drafts = [
        MessageDraft(payload, kind, headers, message_type, key, priority, delay_seconds)
        for payload, kind in await _bodies(body, header_text(request, "content-type"))
    ]
    with refused_as_problems():
        ids = await context.jobs.queues.submit(name, drafts, key_id_of(request))
    return SubmittedOut(queue=name, ids=[f"msg_{number}" for number in ids])


@router.get("/{queue}/messages", summary="Browse available messages", response_model=BrowsedList,
            responses=refusals("invalid-cursor"))  # fmt: skip
@needs("read", reach="queue")
async def browse(
    request: Request,
    response: Response,
    queue: Queue,
    context: In,
    limit: Limit = PAGE_DEFAULT,
    after: Annotated[str | None, Query(pattern=r"^msg_[0-9]{1,18}$", description="A message's id.")] = None,
    cursor: Annotated[str | None, Query(max_length=400)] = None,
) -> Response:
    """Oldest first. Browsing changes nothing. Payloads are null for a key without the scope `payloads`."""
    paging = Paging(request, response, cursor, limit)
    [start] = paging.after(int(after.removeprefix("msg_")) if after else 0)
    name, shown = queue_name(queue), shows_payloads(request)
    return await context.answers.page(
        paging, lambda room: context.jobs.queues.browse(name, limit + 1, start, room), lambda row: [row["id"]],
        lambda row: _message_out(Message.of(row), shown=shown),
    )  # fmt: skip


_RECEIVED_HEADERS: dict[int | str, dict[str, Any]] = {
    200: {
        "headers": {
            "Hookwire-Notice": {
                "schema": {"type": "string"},
                "description": "With an empty answer: nobody has used or made this queue yet; check its name.",
            }
        }
    }
}


@router.post(
    "/{queue}/receive", summary="Receive messages", response_model=ReceivedList,
    responses={**_RECEIVED_HEADERS, **refusals(*BODY)},
)  # fmt: skip
@needs("work", reach="queue")
async def receive(request: Request, queue: Queue, body: ReceiveIn, context: In) -> Response:
    """Oldest first. Settle each within its lease, by `accept` or `reject`; after that it is handed out again.

    Large messages come in several answers, of some 8 MB at most.
    """
    name, until = queue_name(queue), time.monotonic() + body.wait_seconds
    wanted = body.filter.model_dump(exclude_none=True) if body.filter is not None else None
    async with context.answers.share() as share:
        with refused_as_problems():
            found = await long_poll(
                request,
                context.leaving,
                lambda: share.fetch(lambda room: _receive_now(request, name, body, wanted, context, room)),
                lambda: context.jobs.waiting.wait(name, until - time.monotonic(), body.consumer),
            )
        answer = await share.list_of(found, _received_out, lambda one: len(one.message.payload))
    if not found and await context.database.fetchrow("queue.get", name) is None:
        answer.headers["Hookwire-Notice"] = f"nobody has used or made the queue {name} yet; check its name"
    return answer


@router.post("/{queue}/accept", summary="Accept messages", responses=refusals(*BODY))
@needs("work", reach="queue")
async def accept(queue: Queue, body: AcceptIn, context: In) -> ReceiptList:
    """Removes them from the queue, and archives them where it keeps history."""
    done = await context.jobs.queues.accept(queue_name(queue), _receipts(body.receipts))
    return _settled("accept", body.receipts, done, context)


@router.post("/{queue}/reject", summary="Return messages", responses=refusals(*BODY))
@needs("work", reach="queue")
async def reject(queue: Queue, body: RejectIn, context: In) -> ReceiptList:
    """Returns them to their old places, after the delay if any, or makes them dead letters."""
    done = await context.jobs.queues.reject(
        queue_name(queue), _receipts(body.receipts), delay_seconds=body.delay_seconds, reason=body.reason,
        dead=body.dead, counts=body.count,
    )  # fmt: skip
    return _settled("reject", body.receipts, done, context)


@router.post("/{queue}/extend", summary="Hold messages for longer", responses=refusals(*BODY))
@needs("work", reach="queue")
async def extend(queue: Queue, body: ExtendIn, context: In) -> ReceiptList:
    """The lease counts from now."""
    done = await context.jobs.queues.extend(queue_name(queue), _receipts(body.receipts), body.lease_seconds)
    return _settled("extend", body.receipts, done, context)


async def _receive_now(
    request: Request, queue: str, body: ReceiveIn, wanted: Mapping[str, Any] | None, context: Context,
    bytes_max: int,
) -> list[Received]:  # fmt: skip
    queues = context.jobs.queues
    if body.consumer is not None:
        return await queues.receive_copies(queue, body.consumer, body.max, body.lease_seconds, wanted, bytes_max)
    receiver = request.client.host if request.client is not None else ""
    return await queues.receive(queue, body.max, body.lease_seconds, wanted, receiver, bytes_max)


async def _bodies(body: bytes, content_type: str | None) -> list[tuple[bytes, str | None]]:
    if content_type is None or content_type.partition(";")[0].strip().lower() != MEDIA_TYPE:
        return [(body, content_type)]
    lines = await beside_loop_if_large(len(body), _judged_lines, body)
    return [(line, "application/json") for line in lines]


def _judged_lines(body: bytes) -> list[bytes]:
    lines = lines_of(body, "messages")
    if not lines:
        raise Problem("malformed-batch", "A batch has at least one line.")
    for number, line in lines:
        try:
            loads(line)
        except StrictJsonError as error:
            raise Problem("malformed-batch", f"line {number}: {error.reason}") from None
    return [line for _, line in lines]


def _own_headers(request: Request) -> dict[str, str]:
    """Return the message's own headers; raise ``Problem`` for a field that was sent twice."""
    ours = [(name, value) for name, value in request.headers.items() if name.startswith("hookwire-")]
    counts = Counter(name for name, _ in ours)
    if twice := next((name for name, count in counts.items() if count > 1), None):
        raise Problem("invalid-header", f"{twice} was sent twice.", parameter=twice)
    return {
        name[len(_HEADER_PREFIX) :]: utf8_text(name, value.encode("latin-1"))
        for name, value in ours
        if name.startswith(_HEADER_PREFIX)
    }


def _receipts(texts: Sequence[str]) -> list[ClaimReceipt]:
    """Return the texts that can be receipts; all others are stale."""
    parsed = (parse_receipt(text) for text in dict.fromkeys(texts))
    return [receipt for receipt in parsed if receipt is not None]


def _settled(verb: str, texts: Sequence[str], held: Collection[ClaimReceipt], context: Context) -> ReceiptList:
    done = {str(receipt) for receipt in held}
    context.jobs.metrics.settled(verb, len(done), len(set(texts) - done))
    items = [{"receipt": text, "state": "done" if text in done else "stale"} for text in texts]
    return ReceiptList.model_validate({"items": items})


def _message_out(message: Message, *, shown: bool = True) -> dict[str, Any]:
    text, encoded = payload_out(message.payload) if shown else (None, None)
    names = ("created_at", "content_type", "type", "key", "priority")
    return {
        **{name: getattr(message, name) for name in names},
        "id": f"msg_{message.id}",
        "headers": dict(message.headers),
        "payload": text,
        "payload_base64": encoded,
    }


def _received_out(one: Received) -> dict[str, Any]:
    return {
        "receipt": str(one.receipt),
        "attempts": one.attempts,
        "leased_until": one.leased_until,
        "message": _message_out(one.message),
    }
