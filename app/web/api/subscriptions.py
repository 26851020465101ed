"""/subscriptions: who wants which topics delivered where."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.condition import BlockedBy, ConditionReason, NextAttemptAt
from app.web.api.context import Context, context_of
from app.web.api.paging import PAGE_DEFAULT, PAGE_MAX, link_next, read_cursor
from app.web.api.precondition import IfMatch, etag, version_meant
from app.web.api.refusals import refusals
from app.web.api.service_refusal import service_name
from app.web.api.strict_route import StrictRoute
from app.web.authentication import grant_of, may_reach_service, require_every_topic, require_topic
from app.web.problem import Problem
from app.web.scopes import needs
from db.pool import Row
from egress.guard import ALLOW_CIDRS_SETTING, ALLOW_HOSTS_SETTING
from egress.header import HeaderRefused
from egress.url import UrlRefused, parse_target
from event.topic import TopicError, validate_pattern
from hub.filter import FilterError
from hub.subscriptions import InUse, NewSubscription, Stale, SubscriptionUpdate
from webhooks.chat import CHAT_FORMATS, TEMPLATE_MAX, TemplateRefused, check_template
from webhooks.condition import Health, subscription_condition
from webhooks.custom_header import checked_headers

__all__ = ["find", "pattern_of", "router", "subscription_out"]

router = APIRouter(
    prefix="/subscriptions", tags=["subscriptions"], route_class=StrictRoute,
    responses=refusals("database-unavailable", "busy", "invalid-parameter"),
)  # fmt: skip
In = Annotated[Context, Depends(context_of)]
Format = Literal["as_published", "raw", "binary", "structured", "batch", "websub_ping", "slack", "mattermost"]
Mode = Literal["at_least_once", "at_most_once", "ordered"]
_OF_SERVICES = frozenset(
    {"service", "callback", "secret", "state", "timeout_seconds", "headers", "name", "description", "metadata"}
)
Metadata = Annotated[
    dict[Annotated[str, Field(min_length=1, max_length=40)], Annotated[str, Field(max_length=500)]],
    Field(max_length=20),
]
Schedule = Annotated[list[Annotated[int, Field(ge=0, le=604_800)]], Field(max_length=50)]


class Naming(BaseModel):
    """What people know a subscription by; it changes nothing else."""

    name: Annotated[str, Field(max_length=100)] | None = None
    description: Annotated[str, Field(max_length=1_000)] | None = None
    metadata: Metadata | None = Field(None, description="Names and values of your own, such as an owner; 20 at most.")


class DeliveryOptions(Naming):
    """How its events are delivered."""

    retry_schedule_seconds: Schedule | None = Field(None, description="Pauses between attempts; none: the hub's.")
    retry_age_seconds_max: int | None = Field(
        None, ge=1, le=31_536_000, description="No attempt of a delivery older than that; none: the hub's."
    )
    on_4xx: Literal["retry", "give_up"] | None = Field(
        None, description="give_up: a 4xx other than 408, 425 and 429 is final for the delivery. None: retry."
    )
    on_410: Literal["end", "as_4xx"] | None = Field(
        None, description="as_4xx: a 410 does not end the subscription. None: end."
    )
    on_exhausted: Literal["park", "skip"] | None = Field(
        None,
        description="Ordered: when the schedule of a key's head is used up, the key waits (park), or the head becomes "
        "a dead letter and the key goes on (skip). None: park, for one that is made ordered.",
    )
    timeout_seconds: float | None = Field(None, ge=1, le=30, description="Deadline of one attempt; none: the hub's.")
    rate_per_second: float | None = Field(
        None, ge=0.001, le=100_000, description="Attempts in the whole fleet; what is above waits. None: no limit."
    )
    rate_burst: int | None = Field(
        None, ge=1, le=100_000, description="How many may be made at once after a rest; none: those of a second."
    )
    format: Format | None = Field(
        None,
        description="as_published: CloudEvents binary mode for what was published as one, else the bare content. raw: "
        "never a CloudEvent. binary, structured: always one. batch: a JSON array of them, up to `batch_max`. "
        "websub_ping: the callback is another WebSub hub, which is told by hub.mode=publish that the topic has "
        "changed, and fetches it. slack, mattermost: a line for a chat's incoming webhook, written by `template`. "
        "None: as_published.",
    )
    batch_max: int | None = Field(
        None, ge=1, le=1000, description="How many events one request carries at most; needed for format batch."
    )
    template: str | None = Field(
        None,
        max_length=TEMPLATE_MAX,
        description="For chats: text with `{id}`, `{topic}`, `{key}`, `{time}`, `{content}`, `{data.a.b}` (of JSON). "
        "None: topic and content.",
    )
    headers: dict[str, str] | None = Field(
        None, description="Sent with each delivery, such as Authorization. Sealed; nobody is shown their values again."
    )


class SubscriptionIn(DeliveryOptions):
    """A new subscription."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"topic": "orders.*", "callback": "http://127.0.0.1:9000/hook"}]},
    )

    topic: str | None = Field(
        None, description="A topic's name or a pattern: `*` is one word, `#` any number of words."
    )
    service: str | None = Field(
        None,
        description="Instead of a topic: the callback works for this service. Each request is POSTed, and the body of "
        "the 2xx answer is the reply. Of the options only `timeout_seconds` and `headers` count.",
    )
    callback: str = Field(description="Where events or requests are POSTed; kept byte for byte.")
    secret: str | None = Field(
        None, description="`whsec_` + base64 of 24-64 bytes, or `whsk_`; none: one is made.", max_length=200
    )
    state: Literal["active", "disabled"] = Field("active", description="A disabled subscription gets nothing.")
    mode: Mode | None = Field(
        None,
        description="at_least_once: repeats are possible. at_most_once: each event is tried once and may be missed. "
        "ordered: at least once, each key's events one after the other. None: as `ordered` says.",
    )
    ordered: bool = Field(False, description="Short for mode ordered.")
    filter: dict[str, Any] | None = Field(None, description="Which events it wants, by content; none: all.")


class SubscriptionChange(DeliveryOptions):
    """What to change; what is left out stays. An option that is null is as usual again."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"state": "disabled"}]})

    topic: str | None = None
    callback: str | None = None
    state: Literal["active", "disabled"] | None = None
    mode: Mode | None = None
    ordered: bool | None = None
    filter: dict[str, Any] | None = Field(None, description="An empty one ends filtering.")


_SECRET_EXAMPLE = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - of nobody
_EXAMPLE: dict[str, Any] = {
    "id": "sub_3f1c0a9be2d45c7780aa",
    "protocol": "webhook",
    "topic": "orders.*",
    "service": None,
    "callback": "http://127.0.0.1:9000/hook",
    "state": "active",
    "state_reason": None,
    "name": "warehouse",
    "description": None,
    "metadata": {"owner": "team-orders"},
    "mode": "at_least_once",
    "ordered": False,
    "retry_schedule_seconds": None,
    "retry_age_seconds_max": None,
    "on_4xx": "retry",
    "on_410": "end",
    "on_exhausted": "skip",
    "timeout_seconds": None,
    "rate_per_second": 50.0,
    "rate_burst": None,
    "format": "as_published",
    "batch_max": None,
    "template": None,
    "request_origin": None,
    "header_names": None,
    "lease_until": None,
    "paused_until": None,
    "breaker_open_until": None,
    "health": "healthy",
    "reason": "the last success was at 2026-01-15T09:31:07Z",
    "blocked_by": None,
    "failing_since": None,
    "last_success_at": "2026-01-15T09:31:07.131002Z",
    "waiting": 0,
    "next_attempt_at": None,
    "filter": {"data": {"amount": {"$gte": 100}}},
    "created_at": "2026-01-15T09:30:00Z",
    "updated_at": "2026-01-15T09:30:00Z",
}


class SubscriptionOut(BaseModel):
    """A subscription as it stands."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    id: str
    protocol: Literal["webhook", "websub", "pull", "rabbithub", "service"]
    topic: str = Field(description="Of a service: a name for its requests; no event has this topic.")
    service: str | None = Field(description="The service that the callback works for.")
    callback: str = Field(description="Empty for a pull subscription.")
    state: Literal["active", "disabled", "gone", "expired", "denied"]
    state_reason: str | None
    name: str | None
    description: str | None
    metadata: dict[str, str] | None
    mode: Mode
    ordered: bool
    retry_schedule_seconds: list[int] | None
    retry_age_seconds_max: int | None
    on_4xx: Literal["retry", "give_up"]
    on_410: Literal["end", "as_4xx"]
    on_exhausted: Literal["park", "skip"]
    timeout_seconds: float | None
    rate_per_second: float | None
    rate_burst: int | None
    format: Format
    batch_max: int | None
    template: str | None
    request_origin: str | None = Field(description="CloudEvents handshake: the origin that the callback agreed to.")
    header_names: list[str] | None = Field(description="Headers of its own that are sent with each delivery.")
    lease_until: datetime | None = Field(description="WebSub: when the lease ends.")
    paused_until: datetime | None = Field(description="The receiver asked for a rest until then (429).")
    breaker_open_until: datetime | None = Field(
        description="It fails so often that it is left alone until then; after that one delivery at a time is tried."
    )
    health: Health = Field(
        description="Whether its receiver answers: healthy, untried (nothing was sent yet), failing (no success since "
        "`failing_since`), paused (by its receiver); else its state."
    )
    reason: ConditionReason
    blocked_by: BlockedBy
    failing_since: datetime | None = Field(description="The first failure since the last success.")
    last_success_at: datetime | None = Field(description="None: no success is known.")
    waiting: int = Field(description="Deliveries that it is owed, counted up to 1,000.")
    next_attempt_at: NextAttemptAt
    filter: dict[str, Any] | None = Field(description="Which events it wants, by content; none: all.")
    created_at: datetime
    updated_at: datetime


class SubscriptionCreated(SubscriptionOut):
    """A new subscription with its secret, which is shown this once."""

    model_config = ConfigDict(json_schema_extra={"examples": [{**_EXAMPLE, "secret": _SECRET_EXAMPLE}]})

    secret: str = Field(description="Verify deliveries with it (Standard Webhooks). Shown only here.")


class SubscriptionPage(BaseModel):
    """A page of subscriptions in order of creation."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_EXAMPLE], "next_cursor": None}]})

    items: list[SubscriptionOut]
    next_cursor: str | None


def _out(row: Row) -> dict[str, object]:
    mode = "ordered" if row["ordered"] else "at_most_once" if row["at_most_once"] else "at_least_once"
    wanted = json.loads(row["filter"]) if row["filter"] else None
    health, reason, blocked_by, next_at = subscription_condition(row)
    found: dict[str, Any] = {"health": health, "reason": reason, "blocked_by": blocked_by, "next_attempt_at": next_at}
    found["metadata"] = json.loads(row["metadata"]) if row["metadata"] else None
    return {**row, **found, "id": row["public_id"], "mode": mode, "filter": wanted}


def _in(body: SubscriptionIn | SubscriptionChange, context: Context) -> dict[str, Any]:
    """What is named, as ``hub.subscriptions`` takes it; else ``Problem``."""
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


def _service_in(request: Request, body: SubscriptionIn) -> dict[str, Any]:
    """The service and its topic, where a callback works for one; else ``Problem`` for a body without a topic."""
    if body.service is None:
        if body.topic is None:
            slug = "invalid-parameter" if "topic" in body.model_fields_set else "missing-parameter"
            raise Problem(slug, "topic: a topic or a pattern; or give a service.", parameter="topic")
        return {}
    _refuse_others(body)
    name, grant = service_name(body.service), grant_of(request)
    if grant is not None and not (grant.has("work") and grant.reaches_service(name)):
        raise Problem("forbidden", f"This needs the scope work, and a key for the service {name}.")
    return {"topic": f"hookwire.service.{name}.request"}


def _refuse_others(body: BaseModel) -> None:
    """Raise ``Problem`` for an option that counts for events only."""
    if strange := sorted(body.model_fields_set - _OF_SERVICES):
        raise Problem("invalid-parameter", f"{strange[0]} is not for a service", parameter=strange[0])


def _check_format(options: Mapping[str, Any]) -> None:
    """Who wants several events in one request says how many (WH-C05); a template is for chats, of what there is."""
    form, template = options.get("format"), options.get("template")
    if form == "batch" and options.get("batch_max") is None:
        raise Problem("invalid-parameter", "format batch needs batch_max, 1 to 1000", parameter="batch_max")
    if template is None:
        return
    if form not in CHAT_FORMATS:
        raise Problem("invalid-parameter", f"a template is for {' and '.join(CHAT_FORMATS)}", parameter="template")
    try:
        check_template(template)
    except TemplateRefused as error:
        raise Problem("invalid-parameter", str(error), parameter="template") from None


def pattern_of(topic: str) -> str:
    """A pattern in its canonical form; else ``Problem``."""
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
    """Static judgement only; names are judged when they are dialled."""
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
    summary="Subscribe a callback to a topic or a pattern, or to a service",
    responses=refusals(
        "malformed-json", "missing-parameter", "invalid-parameter", "unsupported-media-type", "body-too-large",
        "invalid-pattern", "invalid-callback", "callback-refused", "invalid-filter",
    ),
)  # fmt: skip
@needs("subscribe", reach="route")
async def create(request: Request, body: SubscriptionIn, response: Response, context: In) -> SubscriptionCreated:
    """The answer carries the signing secret, once. Whatever is accepted from then on reaches the callback."""
    named = _service_in(request, body) | _in(body, context)
    _check_format(named)
    if "service" not in named:
        require_topic(request, named["topic"])
    try:
        row, secret = await context.subscriptions.create(NewSubscription(**named))
    except FilterError as error:
        raise Problem("invalid-filter", str(error), parameter="filter") from None
    except ValueError as error:
        raise Problem("invalid-parameter", str(error), parameter="secret") from None
    response.headers["Location"] = f"/subscriptions/{row['public_id']}"
    return SubscriptionCreated.model_validate({**_out(row), "secret": secret})


@router.get("", summary="List subscriptions", responses=refusals("invalid-cursor", "invalid-parameter"))
@needs("subscribe", "read", reach="route")
async def list_subscriptions(
    request: Request,
    response: Response,
    context: In,
    topic: Annotated[str | None, Query(max_length=249, description="Exactly this topic or pattern.")] = None,
    state: Annotated[Literal["active", "disabled", "gone", "expired", "denied"] | None, Query()] = None,
    cursor: Annotated[str | None, Query(max_length=400)] = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = PAGE_DEFAULT,
) -> SubscriptionPage:
    """Oldest first; `Link: rel="next"` and `next_cursor` lead on."""
    after = read_cursor(cursor, [int]) or [0]
    if topic is not None and "\x00" in topic:
        raise Problem("invalid-parameter", "topic holds a NUL character", parameter="topic")
    if topic is None:
        require_every_topic(request)
    else:
        require_topic(request, topic)
    rows = await context.database.fetch("subscription.list", "default", after[0], topic, state, limit + 1)
    more = [rows[limit - 1]["id"]] if len(rows) > limit else None
    next_cursor = link_next(request, response, more)
    return SubscriptionPage.model_validate({"items": [_out(row) for row in rows[:limit]], "next_cursor": next_cursor})


_MISSING = "There is no such subscription."


async def find(request: Request, identity: str, context: Context) -> Row:
    """The subscription of this id, if the request's key may know of it; else ``Problem``."""
    named = identity.isascii() and identity.isprintable() and len(identity) <= 60
    row = await context.subscriptions.get(identity) if named else None
    if row is None:
        raise Problem("not-found", _MISSING)
    if row["service"] is None:
        require_topic(request, row["topic"], hidden=_MISSING)
    elif not may_reach_service(request, row["service"]):
        raise Problem("not-found", _MISSING)
    return row


def subscription_out(row: Row | None) -> SubscriptionOut:
    """The public shape of a row of ``subscription.get``; ``Problem`` for none."""
    if row is None:
        raise Problem("not-found", _MISSING)
    return SubscriptionOut.model_validate(_out(row))


@router.get("/{subscription_id}", summary="One subscription", responses=refusals("not-found"))
@needs("subscribe", "read", reach="route")
async def get(request: Request, subscription_id: str, response: Response, context: In) -> SubscriptionOut:
    """As it stands now. Its `ETag` names this version."""
    row = await find(request, subscription_id, context)
    response.headers["ETag"] = etag(row["version"])
    return subscription_out(row)


@router.patch(
    "/{subscription_id}",
    summary="Change a subscription",
    responses=refusals(
        "not-found", "malformed-json", "invalid-parameter", "unsupported-media-type", "body-too-large",
        "invalid-pattern", "invalid-callback", "callback-refused", "invalid-filter", "precondition-failed",
    ),
)  # fmt: skip
@needs("subscribe", reach="route")
async def change(
    request: Request, subscription_id: str, body: SubscriptionChange, response: Response, context: In,
    if_match: IfMatch = None,
) -> SubscriptionOut:  # fmt: skip
    """What is left out stays. Setting `state` to `active` also ends a pause and closes the breaker."""
    row = await find(request, subscription_id, context)
    if row["service"] is not None:
        _refuse_others(body)
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
    """What it was still owed becomes dead letters of kind `gone`."""
    row = await find(request, subscription_id, context)
    try:
        deleted = await context.subscriptions.delete(row["public_id"], version_meant(if_match))
    except Stale:
        raise Problem("precondition-failed") from None
    except InUse:
        detail = "A RabbitHub queue keeps its messages in it; delete the queue."
        raise Problem("invalid-parameter", detail, parameter="subscription_id") from None
    if not deleted:
        raise Problem("not-found", _MISSING)
