"""/subscriptions: topics, filters and callbacks of receivers."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from fastapi import Query, Request, Response
from pydantic import BaseModel, Field

from app.verdict.counts import EXACT_MAX
from app.web.api.dependency import In
from app.web.api.route.audited import audited
from app.web.api.route.context import Context
from app.web.api.route.known_subscription import find, is_reached, no_such_subscription
from app.web.api.route.paging import Paged
from app.web.api.route.precondition import IfMatch, etag, version_meant
from app.web.api.route.refusals import BODY, OPTIONAL_BODY, refusals
from app.web.api.route.strict_route import strict_router
from app.web.api.subscribing.format_check import check_format as _check_format
from app.web.api.subscribing.scope_warnings import warnings_of
from app.web.api.subscribing.subscription_contract import (
    DeliveryOptions,
    SubscriptionChange,
    SubscriptionCreated,
    SubscriptionDetail,
    SubscriptionIn,
    SubscriptionOut,
    SubscriptionPage,
)
from app.web.api.work.queue_refusal import queue_name
from app.web.api.work.service_refusal import service_name
from app.web.authentication import grant_of, require_topic
from app.web.problem import Problem
from app.web.scopes import needs
from db.pool import Row
from egress.guard import ALLOW_CIDRS_SETTING, ALLOW_HOSTS_SETTING
from egress.header import HeaderRefused
from egress.url import UrlRefused, host_spellings, parse_target
from event.topic import TopicError, validate_pattern
from hub.filter import FilterError
from hub.subscriptions import InUse, NewSubscription, Stale, SubscriptionUpdate
from webhooks.condition import WAITING_MAX, Health, subscription_condition
from webhooks.custom_header import checked_headers

__all__ = ["find_to_change", "pattern_of", "router", "subscription_out"]

Pair = Annotated[str, Field(max_length=541, pattern="^[^:]{1,40}:")]
router = strict_router("/subscriptions", "subscriptions", "invalid-parameter")
_OF_WORKERS = frozenset(
    {"callback", "secret", "state", "timeout_seconds", "headers", "name", "description", "metadata"}
)


def _out(row: Row) -> dict[str, object]:
    mode = "ordered" if row["ordered"] else "at_most_once" if row["at_most_once"] else "at_least_once"
    wanted = json.loads(row["filter"]) if row["filter"] else None
    health, reason, blocked_by, next_at = subscription_condition(row)
    found: dict[str, Any] = {"health": health, "reason": reason, "blocked_by": blocked_by, "next_attempt_at": next_at}
    found["metadata"] = json.loads(row["metadata"]) if row["metadata"] else None
    return {**row, **found, "id": row["public_id"], "mode": mode, "filter": wanted}


def _in(body: SubscriptionIn | SubscriptionChange, context: Context) -> dict[str, Any]:
    """Return the request for ``hub.subscriptions``; raise ``Problem`` for an invalid one."""
    named = {name: value for name in body.model_fields_set if (value := getattr(body, name)) is not None}
    if "topic" in named:
        named["topic"] = pattern_of(named["topic"])
    if "callback" in named:
        named["callback"] = _callback(named["callback"], context)
    if "headers" in body.model_fields_set:
        named["headers"] = _headers(body.headers or {})
    mode = named.pop("mode", None)
    if mode is not None:
        if named.get("ordered", mode == "ordered") != (mode == "ordered"):
            raise Problem("invalid-parameter", "mode and ordered contradict each other", parameter="mode")
        named |= {"ordered": mode == "ordered", "at_most_once": mode == "at_most_once"}
    if named.get("ordered"):
        named = {"at_most_once": False} | named
    return named


def _work_in(request: Request, body: SubscriptionIn) -> dict[str, Any]:
    """Return the topic of a callback that works for a service or on a kind of jobs; nothing where the body has a topic.

    Raise ``Problem`` where it has none of the three.
    """
    if body.service is not None:
        return _service_in(request, body, body.service)
    if body.kind is not None:
        return _kind_in(request, body, body.kind)
    if body.queue is not None:
        raise Problem("invalid-parameter", "queue: give the kind of its jobs too", parameter="queue")
    if body.topic is None:
        slug = "invalid-parameter" if "topic" in body.model_fields_set else "missing-parameter"
        raise Problem(slug, "topic: a topic or a pattern; or give a service or a kind of jobs.", parameter="topic")
    return {}


def _service_in(request: Request, body: SubscriptionIn, service: str) -> dict[str, Any]:
    _refuse_others(body, "a service", "service")
    name, grant = service_name(service), grant_of(request)
    if grant is not None and not (grant.has("work") and grant.reaches_service(name)):
        raise Problem("forbidden", f"This needs the scope work, and a key for the service {name}.")
    return {"topic": f"hookwire.service.{name}.request"}


def _kind_in(request: Request, body: SubscriptionIn, kind: str) -> dict[str, Any]:
    _refuse_others(body, "a kind of jobs", "kind", "queue")
    name, grant = queue_name(kind, "kind"), grant_of(request)
    if grant is not None and not (grant.has("work") and grant.reaches_kind(name)):
        raise Problem("forbidden", f"This needs the scope work, and a key for the kind {name}.")
    if body.queue is not None:
        queue_name(body.queue)
    return {"topic": f"hookwire.job.{name}.pushed"}


def _refuse_others(body: BaseModel, worker_for: str, *own: str) -> None:
    """Raise ``Problem`` for an option that counts for events only."""
    if strange := sorted(body.model_fields_set - _OF_WORKERS.union(own)):
        raise Problem("invalid-parameter", f"{strange[0]} is not for {worker_for}", parameter=strange[0])


def pattern_of(topic: str) -> str:
    """Return a pattern in its canonical form; else ``Problem``."""
    try:
        return validate_pattern(topic)
    except TopicError as error:
        raise Problem("invalid-pattern", str(error), parameter="topic") from None


def _headers(headers: dict[str, str]) -> dict[str, str]:
    try:
        return checked_headers(headers)
    except HeaderRefused as error:
        raise Problem("invalid-parameter", str(error), parameter="headers") from None


def _callback(callback: str, context: Context) -> str:
    """Check the callback's text only; names are judged when they are dialled."""
    try:
        parse_target(callback, context.policy)
    except UrlRefused as error:
        if error.operator_reason and error.operator_reason != str(error):
            raise Problem(
                "callback-refused", error.operator_reason, parameter="callback",
                setting=[ALLOW_CIDRS_SETTING, ALLOW_HOSTS_SETTING],
            ) from None  # fmt: skip
        raise Problem("invalid-callback", str(error), parameter="callback") from None
    return callback


@router.post(
    "",
    status_code=201,
    summary="Subscribe a callback to a topic or a pattern, or to a service or a kind of jobs",
    responses=refusals(*BODY, "invalid-pattern", "invalid-callback", "callback-refused", "invalid-filter"),
)
@needs("subscribe", reach="route")
async def create(request: Request, body: SubscriptionIn, response: Response, context: In) -> SubscriptionCreated:
    """Returns the signing secret, which is shown only now. Every event accepted from then on reaches the callback."""
    named = _work_in(request, body) | _in(body, context)
    _check_format(named)
    if body.service is None and body.kind is None:
        require_topic(request, named["topic"])
    try:
        row, secret = await context.subscriptions.create(NewSubscription(**named))
    except FilterError as error:
        raise Problem("invalid-filter", str(error), parameter="filter") from None
    except ValueError as error:
        raise Problem("invalid-parameter", str(error), parameter="secret") from None
    await audited(request, context, "subscription.make", row["public_id"])
    response.headers["Location"] = f"/subscriptions/{row['public_id']}"
    return SubscriptionCreated.model_validate({**_out(row), "secret": secret})


@router.get("", summary="List subscriptions", response_model=SubscriptionPage,
            responses=refusals("invalid-cursor", "invalid-parameter"))  # fmt: skip
@needs("subscribe", "read", reach="route")
async def list_subscriptions(
    request: Request,
    context: In,
    paging: Paged,
    topic: Annotated[str | None, Query(max_length=249, description="Exactly this topic or pattern.")] = None,
    state: Annotated[Literal["active", "disabled", "gone", "expired", "denied"] | None, Query()] = None,
    health: Annotated[Health | None, Query(description="Its `health` now. A page may have fewer items then.")] = None,
    name: Annotated[str | None, Query(max_length=200, description="Exactly this name.")] = None,
    metadata: Annotated[
        list[Pair] | None,
        Query(max_length=20, description="`owner:team-orders`: this name and value; may be repeated."),
    ] = None,
    host: Annotated[str | None, Query(max_length=260, description="The host of its callback, without port.")] = None,
) -> Response:
    """Oldest first; `Link: rel="next"` and `next_cursor` lead to the next page.

    A key for some topics gets the subscriptions to these. A page may then hold fewer items, or none.
    """
    for parameter, text in (("topic", topic), ("name", name), ("metadata", "".join(metadata or ())), ("host", host)):
        if text is not None and "\x00" in text:
            raise Problem("invalid-parameter", f"{parameter} holds a NUL character", parameter=parameter)
    wanted = json.dumps(dict(pair.split(":", 1) for pair in metadata)) if metadata else None
    if topic is not None:
        require_topic(request, topic)
    asked = ("subscription.list", "default", *paging.after(0), topic, state, paging.limit + 1)
    spellings = host_spellings(host) if host else []
    one, several = (spellings[0], None) if len(spellings) == 1 else (None, spellings or None)
    fetch = context.database.fetch_filtered if host else context.database.fetch

    def may_see(row: Row) -> bool:
        return is_reached(request, row) and health in (None, subscription_condition(row).state)

    return await context.answers.page(
        paging, lambda room: fetch(*asked, room, name, wanted, one, several), lambda row: [row["id"]],
        lambda row: SubscriptionOut.model_validate(_out(row)).model_dump(by_alias=True), may_see,
    )  # fmt: skip


async def find_to_change(request: Request, identity: str, context: Context) -> Row:
    """Return the subscription as :func:`find` does. A worker's callback gets the work of others, so the key needs the
    scope ``work`` to change it; else ``Problem``.
    """
    row, grant = await find(request, identity, context), grant_of(request)
    is_worker = row["service"] is not None or row["kind"] is not None
    if is_worker and grant is not None and not grant.has("work"):
        raise Problem("forbidden", "This is the callback of a worker; to change it, a key needs the scope work.")
    return row


def subscription_out(row: Row | None) -> SubscriptionOut:
    """Return the public shape of a row of ``subscription.get``; ``Problem`` for none."""
    if row is None:
        raise no_such_subscription()
    return SubscriptionOut.model_validate(_out(row))


@router.get("/{subscription_id}", summary="Get a subscription", responses=refusals("not-found"))
@needs("subscribe", "read", reach="route")
async def get(request: Request, subscription_id: str, response: Response, context: In) -> SubscriptionDetail:
    """Shows its present state, and warnings. Its `ETag` names this version."""
    row = await find(request, subscription_id, context)
    response.headers["ETag"] = etag(row["version"])
    secret_at = await context.database.fetchval("subscription.secret_at", row["id"])
    warnings = warnings_of(row, secret_at, context.policy, row["now"])
    found = SubscriptionDetail.model_validate({**_out(row), "warnings": warnings})
    if found.waiting >= WAITING_MAX:
        found.waiting = await context.database.fetchval("console.waiting", row["id"], EXACT_MAX)
    return found


@router.patch(
    "/{subscription_id}",
    summary="Change a subscription",
    responses=refusals(
        *OPTIONAL_BODY, "not-found", "invalid-pattern", "invalid-callback", "callback-refused", "invalid-filter",
        "precondition-failed",
    ),
)  # fmt: skip
@needs("subscribe", reach="route")
async def change(
    request: Request, subscription_id: str, body: SubscriptionChange, response: Response, context: In,
    if_match: IfMatch = None,
) -> SubscriptionOut:  # fmt: skip
    """Missing fields stay. Setting `state` to `active` also ends a pause and closes the breaker."""
    row = await find_to_change(request, subscription_id, context)
    if row["service"] is not None or row["kind"] is not None:
        _refuse_others(body, "a service" if row["service"] is not None else "a kind of jobs")
    if body.drains and body.state != "disabled":
        raise Problem("invalid-parameter", "drains needs the state disabled in the same request.", parameter="drains")
    named = _in(body, context)
    if "topic" in named:
        require_topic(request, named["topic"])
    unset = frozenset(DeliveryOptions.model_fields) & body.model_fields_set - named.keys()
    _check_format({name: row[name] for name in ("format", "batch_max", "template")} | dict.fromkeys(unset) | named)
    try:
        changed = await context.subscriptions.change(
            row["public_id"], SubscriptionUpdate(**named, unset=unset), version_meant(if_match)
        )
    except FilterError as error:
        raise Problem("invalid-filter", str(error), parameter="filter") from None
    except Stale:
        raise Problem("precondition-failed") from None
    if changed is not None:
        await audited(request, context, "subscription.change", row["public_id"])
        response.headers["ETag"] = etag(changed["version"])
    return subscription_out(changed)


@router.delete(
    "/{subscription_id}",
    status_code=204,
    summary="End a subscription",
    responses=refusals("not-found", "precondition-failed"),
)
@needs("subscribe", reach="route")
async def delete(request: Request, subscription_id: str, context: In, if_match: IfMatch = None) -> None:
    """Its open deliveries become dead letters of kind `gone`."""
    row = await find_to_change(request, subscription_id, context)
    try:
        deleted = await context.subscriptions.delete(row["public_id"], version_meant(if_match))
    except Stale:
        raise Problem("precondition-failed") from None
    except InUse:
        detail = "A RabbitHub queue keeps its messages in it; delete the queue."
        raise Problem("invalid-parameter", detail, parameter="subscription_id") from None
    if not deleted:
        raise no_such_subscription()
    await audited(request, context, "subscription.end", row["public_id"])
