"""/services: call a service, work for it, change its settings."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Header, Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.dependency import In
from app.web.api.events.events import payload_out
from app.web.api.route.actor import Reason, Reasoned, actor_of
from app.web.api.route.context import Context
from app.web.api.route.effect import tell_without_effect
from app.web.api.route.long_poll import long_poll
from app.web.api.route.paging import PagedByName
from app.web.api.route.refusals import BODY, refusals
from app.web.api.route.strict_route import strict_router
from app.web.api.work.prefer import preference_of
from app.web.api.work.requests import ANSWERS, REPLY_BODY, Prefer, answer_within
from app.web.api.work.service_refusal import service_name, service_refusals
from app.web.authentication import key_id_of, may_reach_service
from app.web.header_text import header_text
from app.web.problem import Problem
from app.web.scopes import needs
from db.pool import Row
from reqrep.bridge.held_request import HeldRequest
from reqrep.bridge.requests import RequestDraft
from reqrep.bridge.waiting_worker import WaitingWorker

__all__ = ["router"]

router = strict_router("/services", "services", "invalid-parameter")
Name = Annotated[str, Path(description="1 to 200 characters of `A-Z a-z 0-9 . _ -` in dot-separated words.")]


class ServiceSettings(BaseModel):
    """Settings for the requests of a service."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"tries_max": 3, "lease_seconds": 60}]})

    lease_seconds: float = Field(30, ge=1, le=43_200, description="Default lease of a worker.")
    tries_max: int = Field(5, ge=1, le=1000, description="Lost or failed workers before a request is given up.")
    idempotent: bool = Field(
        True, description="false: a request of a lost worker goes to no other worker, because it may have run."
    )
    expiry_seconds: float = Field(86_400, ge=1, le=31_536_000, description="No worker gets it after this.")
    retention_seconds: float = Field(604_800, ge=1, le=31_536_000, description="How long a reply is kept.")
    concurrency_max: int | None = Field(
        None, ge=1, le=100_000, description="Requests with workers at the same time; null: no limit."
    )
    without_workers: Literal["queue", "refuse"] = Field(
        "queue", description="refuse: 503 at once while no worker is present."
    )


class ServiceCounts(BaseModel):
    """The requests of a service, counted."""

    waiting: int
    leased: int
    oldest_at: datetime | None = Field(description="When the oldest waiting request was made.")
    callbacks: int = Field(description="Subscriptions whose callback works for it.")
    has_workers: bool = Field(description="A worker asked in the last minute, holds a request, or is a callback.")


_SERVICE: dict[str, Any] = {
    "name": "echo", "lease_seconds": 30.0, "tries_max": 5, "idempotent": True, "expiry_seconds": 86400.0,
    "retention_seconds": 604800.0, "concurrency_max": None, "without_workers": "queue", "disabled": False,
    "created_at": "2026-01-15T09:30:00Z",
    "counts": {"waiting": 0, "leased": 1, "oldest_at": None, "callbacks": 0, "has_workers": True},
}  # fmt: skip
_HELD: dict[str, Any] = {
    "receipt": "req_6f1e0c7ab5f84e0d9c2b7a51d0e3f482_19",
    "attempts": 1,
    "leased_until": "2026-01-15T09:31:37.120455Z",
    "request": {
        "id": "6f1e0c7ab5f84e0d9c2b7a51d0e3f482", "service": "echo", "created_at": "2026-01-15T09:31:07.120455Z",
        "content_type": "text/plain", "payload": "hello", "payload_base64": None,
    },
}  # fmt: skip


class ServiceOut(ServiceSettings):
    """A service."""

    model_config = ConfigDict(extra="ignore", json_schema_extra={"examples": [_SERVICE]})

    name: str
    disabled: bool = Field(description="The service refuses new requests; waiting requests are still executed.")
    created_at: datetime
    counts: ServiceCounts


class ServicePage(BaseModel):
    """A page of services by name."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_SERVICE], "next_cursor": None}]})

    items: list[ServiceOut]
    next_cursor: str | None


class ClaimRequestsIn(BaseModel):
    """How many requests to claim, and how long to hold them."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"max": 1, "wait_seconds": 20}]})

    max: int = Field(1, ge=1, le=100)
    lease_seconds: float | None = Field(None, ge=1, le=43_200, description="null: the service's own.")
    wait_seconds: float = Field(0, ge=0, le=20, description="How long to wait for a request.")


class ServiceRequestOut(BaseModel):
    """The request as it was made."""

    id: str
    service: str
    created_at: datetime
    content_type: str | None
    payload: str | None = Field(description="The body, if it is UTF-8.")
    payload_base64: str | None = Field(description="The body, if it is not.")


class HeldRequestOut(BaseModel):
    """A request that the worker holds until its lease ends."""

    receipt: str = Field(description="The receipt for the answer.")
    attempts: int
    leased_until: datetime
    request: ServiceRequestOut


class HeldRequestList(BaseModel):
    """The requests, oldest first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_HELD]}]})

    items: list[HeldRequestOut]


@router.get("", summary="List services", responses=refusals("invalid-cursor"))
@needs("call", "read", reach="route")
async def list_services(request: Request, context: In, paging: PagedByName) -> ServicePage:
    """By name, with counts. A service that an SQL transaction has just called appears within a minute."""
    rows = await context.database.fetch("service.list", *paging.after(""), paging.limit + 1)
    mine = [row for row in rows[: paging.limit] if may_reach_service(request, row["name"])]
    items, next_cursor = await _services_out(mine, context), paging.next_of(rows, "name")
    return ServicePage.model_validate({"items": items, "next_cursor": next_cursor})


@router.get("/{name}", summary="A service", responses=refusals("unknown-service"))
@needs("call", "read", reach="service", parameter="name")
async def get(name: Name, context: In) -> ServiceOut:
    """Settings and counts."""
    found = service_name(name)
    row = await context.database.fetchrow("service.get", found)
    if row is None:
        await context.database.execute("service.adopt")
        row = await context.database.fetchrow("service.get", found)
    return await _service_out(row, found, context)


@router.put("/{name}", summary="Set a service's settings", responses=refusals(*BODY))
@needs("admin", reach="service", parameter="name")
async def put(name: Name, body: ServiceSettings, context: In) -> ServiceOut:
    """Creates the service if there is none. The settings apply from now on."""
    found = service_name(name)
    row = await context.database.fetchrow(
        "service.put", found, body.lease_seconds, body.tries_max, body.idempotent, body.expiry_seconds,
        body.retention_seconds, body.concurrency_max, body.without_workers,
    )  # fmt: skip
    return await _service_out(row, found, context)


@router.post(
    "/{name}", summary="Call a service", response_class=Response, openapi_extra=REPLY_BODY,
    responses={
        **ANSWERS,
        **refusals(
            "unknown-service", "service-unavailable", "idempotency-key-reused", "request-closed", "body-too-large",
            "invalid-parameter", "outcome-unknown", "database-unavailable", "busy", "too-many-names",
        ),
    },
)  # fmt: skip
@needs("call", reach="service", parameter="name")
async def call(
    request: Request, name: Name, context: In, prefer: Prefer = None,
    number: Annotated[
        str | None,
        Header(alias="Idempotency-Key", max_length=255, description="Requests with one key are one request."),
    ] = None,
    expiry_seconds: Annotated[
        float | None,
        Header(alias="Hookwire-Expiry-Seconds", ge=1, le=31_536_000, description="null: the service's own."),
    ] = None,
) -> Response:  # fmt: skip
    """The body is the request. It is stored before the answer, and waits for a worker until it expires."""
    service, body, preference = service_name(name), await request.body(), preference_of(request)
    caller = key_id_of(request)
    client = f"http {caller or 'anyone'}" if number is not None else None
    draft = RequestDraft(body, header_text(request, "content-type"), caller, client, number, expiry_seconds)
    with service_refusals():
        request_id, repeated = await context.services.requests.make(service, draft)
    try:
        response = await answer_within(request, request_id, preference, context, is_new=not repeated)
    except Problem as problem:
        context.services.metrics.called(problem.slug)
        if repeated and problem.slug == "not-found":
            raise Problem("request-closed", "The request of this Idempotency-Key was closed.") from None
        raise
    if repeated:
        response.headers["Idempotency-Replayed"] = "true"
    context.services.metrics.called("reply" if response.status_code == 200 else "pending")
    return response


@router.post("/{name}/claim", summary="Claim requests to work on", response_model=HeldRequestList,
             responses=refusals(*BODY, "unknown-service"))  # fmt: skip
@needs("work", reach="service", parameter="name")
async def claim(request: Request, name: Name, body: ClaimRequestsIn, context: In) -> Response:
    """Oldest first. Answer each within its lease, by `POST /requests/{id}/reply`; after that another worker gets it.

    Large requests come in several claims, of some 8 MB at most.
    """
    service, until = service_name(name), time.monotonic() + body.wait_seconds
    requests, waiting = context.services.requests, context.services.waiting
    worker = WaitingWorker(service, actor_of(request), body.lease_seconds, waiting.unmet(service))
    asked = (service, body.max, body.lease_seconds, worker.name)
    async with context.answers.share() as share:

        async def fetch() -> Sequence[HeldRequest]:
            return worker.take() or await share.fetch(lambda room: requests.claim(*asked, room, key_id_of(request)))

        try:
            with service_refusals():
                held = await long_poll(
                    request,
                    context.leaving,
                    fetch,
                    lambda: waiting.for_request(worker, until - time.monotonic()),
                )
        finally:
            await requests.take_back(service, worker.take())
        return await share.list_of(held, lambda one: _held_out(service, one), lambda one: len(one.body))


@router.post("/{name}/disable", status_code=204, summary="Disable a service", responses=refusals("unknown-service"))
@needs("operate", reach="service", parameter="name")
async def disable(request: Request, response: Response, name: Name, body: Reasoned, context: In) -> None:
    """Refuses new requests; waiting requests are still executed."""
    await _disable(request, response, name, body, context, disabled=True)


@router.post("/{name}/enable", status_code=204, summary="Enable a service", responses=refusals("unknown-service"))
@needs("operate", reach="service", parameter="name")
async def enable(request: Request, response: Response, name: Name, body: Reasoned, context: In) -> None:
    """Accepts requests again."""
    await _disable(request, response, name, body, context, disabled=False)


async def _disable(
    request: Request, response: Response, name: str, body: Reason, context: Context, *, disabled: bool
) -> None:
    service = service_name(name)
    row = await context.database.fetchrow("service.disable", service, disabled, actor_of(request), body.reason)
    if row is None:
        raise Problem("unknown-service", f"There is no service {service}.")
    if not row["has_effect"]:
        state = "disabled already" if disabled else "not disabled"
        call: Literal["disable", "enable"] = "disable" if disabled else "enable"
        tell_without_effect(request, response, call, f"the service {service} was {state}")


async def _service_out(row: Row | None, name: str, context: Context) -> ServiceOut:
    if row is None:
        raise Problem("unknown-service", f"There is no service {name}.")
    [found] = await _services_out([row], context)
    return ServiceOut.model_validate(found)


async def _services_out(rows: list[Row], context: Context) -> list[dict[str, Any]]:
    counts = await context.database.fetch("service.counts", [row["name"] for row in rows]) if rows else []
    of_service = {row["service"]: dict(row) for row in counts}
    return [{**row, "counts": of_service[row["name"]]} for row in rows]


def _held_out(service: str, held: HeldRequest) -> dict[str, Any]:
    text, encoded = payload_out(held.body)
    return {
        "receipt": str(held.receipt),
        "attempts": held.attempts,
        "leased_until": held.leased_until,
        "request": {
            "id": held.receipt.request_id, "service": service, "created_at": held.created_at,
            "content_type": held.content_type, "payload": text, "payload_base64": encoded,
        },
    }  # fmt: skip
