"""/requests: requests to services, their replies, and the worker's answer."""

from __future__ import annotations

import re
import time
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from fastapi import Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.dependency import In
from app.web.api.route.actor import actor_of
from app.web.api.route.context import Context
from app.web.api.route.effect import tell_without_effect
from app.web.api.route.paging import Paged
from app.web.api.route.refusals import refusals
from app.web.api.route.strict_route import strict_router
from app.web.api.route.user_content import UserContent
from app.web.api.work.prefer import Preference, preference_of
from app.web.api.work.service_refusal import service_name, service_refusals
from app.web.authentication import grant_of, may_reach_service
from app.web.header_text import header_text
from app.web.problem import Problem
from app.web.scopes import needs
from db.pool import Row
from reqrep.bridge.plain_reply import PlainReply
from reqrep.bridge.receipt import parse_receipt
from reqrep.bridge.requests import DIFFERS, STORED, UNDER_WAY

__all__ = ["ANSWERS", "REPLY_BODY", "answer_within", "principal_of", "router"]

router = strict_router("/requests", "requests")
Id = Annotated[str, Path(description="32 hexadecimal digits, in upper or lower case.")]
State = Literal["waiting", "delayed", "leased", "answered", "expired", "failed"]
_ID: Final = re.compile(r"[0-9A-Fa-f]{32}", re.ASCII)
_LAST: Final = 2**62
_MISSING: Final = "There is no such request, or it was closed or forgotten."
_PENDING: dict[str, Any] = {
    "id": "6f1e0c7ab5f84e0d9c2b7a51d0e3f482", "service": "echo", "state": "waiting", "attempts": 0,
    "created_at": "2026-01-15T09:31:07.120455Z", "expires_at": "2026-01-16T09:31:07.120455Z",
}  # fmt: skip
_LISTED: dict[str, Any] = {
    **_PENDING, "via": "http", "caller": None, "worker": None, "answered_at": None, "last_error": None,
}  # fmt: skip


class PendingOut(BaseModel):
    """A request without a reply yet."""

    model_config = ConfigDict(json_schema_extra={"examples": [_PENDING]})

    id: str
    service: str
    state: Literal["waiting", "delayed", "leased"] = Field(description="leased: a worker has it.")
    attempts: int = Field(description="Number of claims by workers.")
    created_at: datetime
    expires_at: datetime | None = Field(description="No worker gets it after this; null: no limit.")


class RequestOut(BaseModel):
    """A request without its contents."""

    id: str
    service: str
    state: State
    via: Literal["http", "sql", "zeromq"] = Field(description="Transport of the request.")
    caller: str | None = Field(description="The key, or the user of ZeroMQ, of its caller.")
    worker: str | None = Field(description="The last worker that claimed it.")
    attempts: int
    created_at: datetime
    expires_at: datetime | None
    answered_at: datetime | None
    last_error: str | None = Field(description="Reason of the last failed try.")


class RequestPage(BaseModel):
    """A page of requests, newest first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_LISTED], "next_cursor": None}]})

    items: list[RequestOut]
    next_cursor: str | None


REPLY_BODY: Final = {
    "requestBody": {
        "required": False,
        "description": "Any content type, also empty. Several frames of ZeroMQ are"
        ' `application/vnd.hookwire.frames+json`: `{"frames": ["<base64>", ...]}`.',
        "content": {"*/*": {"schema": {}}},
    }
}
_ID_HEADER: Final = {"Hookwire-Request-Id": {"schema": {"type": "string"}, "description": "The request's id."}}
ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The reply, with the content type that the worker gave it.",
        "content": {"*/*": {"schema": {"description": "The worker's answer."}}},
        "headers": _ID_HEADER,
    },
    202: {
        "model": PendingOut,
        "description": "No reply yet: ask `Location` later, after Retry-After.",
        "headers": {
            **_ID_HEADER,
            "Location": {"schema": {"type": "string"}, "description": "URL of the reply."},
            "Retry-After": {"schema": {"type": "integer"}, "description": "Seconds to wait before asking."},
        },
    },
    **refusals("request-failed", "request-expired"),
}  # fmt: skip
Prefer = Annotated[
    str | None,
    Header(description="`wait=n`: wait for the reply, at most n seconds (0 to 60). `respond-async`: do not wait."),
]


@router.get("", summary="List requests", responses=refusals("invalid-cursor", "invalid-parameter"))
@needs("read", reach="route")
async def list_requests(
    request: Request,
    context: In,
    paging: Paged,
    service: Annotated[str | None, Query(max_length=200, description="Only requests to this service.")] = None,
    state: Annotated[State | None, Query()] = None,
) -> RequestPage:
    """Newest first, without contents. A key for some services sees only their requests."""
    named = service_name(service) if service is not None else None
    rows = await context.database.fetch_filtered("request.list", *paging.after(_LAST), named, state, paging.limit + 1)
    mine = [_listed(row) for row in rows[: paging.limit] if may_reach_service(request, row["service"])]
    return RequestPage.model_validate({"items": mine, "next_cursor": paging.next_of(rows, "number")})


@router.get(
    "/{request_id}", summary="The reply to a request", response_class=Response,
    responses={**ANSWERS, **refusals("not-found")},
)  # fmt: skip
@needs("call", reach="route")
async def get(request: Request, request_id: Id, context: In, prefer: Prefer = None) -> Response:
    """Can be repeated. The reply to a request with a key is for that key only."""
    if _ID.fullmatch(request_id) is None:
        raise Problem("not-found", _MISSING)
    return await answer_within(request, request_id.lower(), preference_of(request, 0), context)


@router.delete("/{request_id}", status_code=204, summary="Close a request")
@needs("call", reach="route")
async def close(request: Request, response: Response, request_id: Id, context: In) -> None:
    """Cancels the execution of the request and deletes its reply. An unknown request counts as closed."""
    if not await _close(request, request_id.lower(), context):
        tell_without_effect(request, response, "close", "there is no such request; nothing was changed")


async def _close(request: Request, request_id: str, context: Context) -> bool:
    if _ID.fullmatch(request_id) is None:
        return False
    service = await context.services.requests.service_of(request_id)
    if service is None or not may_reach_service(request, service):
        return False
    return await context.services.requests.close(request_id, principal_of(request), actor_of(request))


@router.post(
    "/{request_id}/reply", status_code=204, summary="Answer a request", openapi_extra=REPLY_BODY,
    responses=refusals("missing-parameter", "invalid-parameter", "stale-receipt", "body-too-large", "outcome-unknown"),
)  # fmt: skip
@needs("work", reach="route")
async def reply(
    request: Request, request_id: Id, context: In,
    receipt: Annotated[str, Header(alias="Hookwire-Receipt", max_length=80, description="The receipt of the claim.")],
) -> None:  # fmt: skip
    """The body is the reply. The first reply wins. The same receipt may repeat it, but not with another body."""
    held, body = parse_receipt(receipt), await request.body()
    outcome = "unknown"
    if held is not None and held.request_id == request_id.lower():
        await _require_service(request, held.request_id, context)
        with service_refusals():
            outcome = await context.services.requests.reply(held, body, header_text(request, "content-type"))
    context.services.metrics.replied(outcome)
    if outcome == DIFFERS:
        raise Problem("stale-receipt", "Nothing was stored: this receipt has answered with another body already.")
    if outcome != STORED:
        raise Problem("stale-receipt", "Nothing was stored: this receipt does not hold the request.")


async def _require_service(request: Request, request_id: str, context: Context) -> None:
    """Raise ``Problem`` where the key of this request is for other services; only such a key needs a query."""
    grant = grant_of(request)
    if grant is not None and (grant.services is not None or grant.topics is not None):
        service = await context.services.requests.service_of(request_id)
        if service is not None and not grant.reaches_service(service):
            raise Problem("forbidden", "The key is not for the service of this request.")


def principal_of(request: Request) -> str | None:
    """Return the principal whose requests this key may see; None: all, with `admin` or without authentication."""
    grant = grant_of(request)
    return None if grant is None or "admin" in grant.scopes else grant.key_id


async def answer_within(
    request: Request, request_id: str, preference: Preference, context: Context, *, is_new: bool = False
) -> Response:
    """Return the reply, waiting for it as the caller prefers; 202 while there is none. Raise ``Problem`` for a request
    that never gets one. The wait for a new request begins before the first query, so that no reply is missed.
    """
    until = time.monotonic() + preference.wait_seconds
    if is_new:
        reply = await context.services.waiting.for_reply(request_id, preference.wait_seconds)
        if isinstance(reply, PlainReply):
            return _replied(request_id, reply, preference)
    while True:
        row = await context.services.requests.get(request_id, principal_of(request))
        if row is None or not may_reach_service(request, row["service"]):
            raise Problem("not-found", _MISSING)
        if row["state"] not in UNDER_WAY:
            return _answer(row, preference)
        waited = await context.services.waiting.for_reply(request_id, until - time.monotonic())
        if not waited or await request.is_disconnected():
            return _pending(row, preference)


def _answer(row: Row, preference: Preference) -> Response:
    if row["state"] == "expired":
        raise Problem("request-expired", f"The service {row['service']} has not answered in time.")
    if row["state"] == "failed":
        detail = f"{row['attempts']} tries have failed; the last one: {row['last_error'] or 'no reason was given'}."
        raise Problem("request-failed", detail)
    return _replied(row["id"], PlainReply(row["reply"], row["content_type"]), preference)


def _replied(request_id: str, reply: PlainReply, preference: Preference) -> Response:
    headers = {**_headers(request_id, preference), "Cache-Control": "no-store"}
    return UserContent(reply.body, reply.content_type, headers)


def _pending(row: Row, preference: Preference) -> Response:
    shown = PendingOut.model_validate(_listed(row))
    headers = {"Location": f"/requests/{row['id']}", "Retry-After": "1", **_headers(row["id"], preference)}
    return JSONResponse(shown.model_dump(mode="json"), 202, headers)


def _headers(request_id: str, preference: Preference) -> dict[str, str]:
    applied = {"Preference-Applied": preference.applied} if preference.applied else {}
    return {"Hookwire-Request-Id": request_id, **applied}


def _listed(row: Row) -> dict[str, Any]:
    """Return a row with null for a time that never comes, which PostgreSQL calls infinity."""
    expires_at = row["expires_at"]
    return {**row, "expires_at": None if expires_at.replace(tzinfo=None) == datetime.max else expires_at}
