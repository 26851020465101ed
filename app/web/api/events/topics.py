"""/topics: topics, their routing, and their latest content (the WebSub topic URL)."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.dependency import In
from app.web.api.events.job_rule import JobRule
from app.web.api.route.audited import audited
from app.web.api.route.context import Context
from app.web.api.route.database_refusal import checked_topic, job_refusals
from app.web.api.route.paging import PagedByName
from app.web.api.route.precondition import IfMatch, etag, version_meant
from app.web.api.route.refusals import OPTIONAL_BODY, refusals
from app.web.api.route.strict_route import strict_router
from app.web.api.route.user_content import UserContent
from app.web.authentication import topics_expression
from app.web.problem import Problem
from app.web.scopes import needs
from db.pool import Row
from egress.url import UrlRefused, parse_target
from event.identity import format_event_id
from event.topic import is_reserved
from relay.amqp.name import EXCHANGE_NAME_PATTERN
from relay.kafka.source.route import route_for
from webhooks.message import link_header

__all__ = ["router"]

router = strict_router("/topics", "topics")
Sink = Literal["kafka", "amqp", "webhooks", "jobs"]


class TopicSettings(BaseModel):
    """Routing and order of a topic."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"sinks": ["webhooks"], "order": "key"}]})

    sinks: list[Sink] | None = Field(
        None, description="The sinks of its events; null: every configured sink but `jobs`, which needs a rule."
    )
    order: Literal["key", "none"] = Field("key", description="none: no key locks and no sequence.")
    kafka_topic: str | None = Field(None, pattern=r"^[A-Za-z0-9._-]{1,249}$", description="null: the topic's name.")
    amqp_exchange: str | None = Field(None, pattern=EXCHANGE_NAME_PATTERN, description="null: the configured exchange.")
    amqp_routing_key: str | None = Field(None, max_length=255, description="null: the topic's name.")
    on_refused: Literal["hold_key", "skip", "stop"] | None = Field(
        None, description="Action after a broker refuses a record for good; null: by the sink's setting."
    )
    validator_url: str | None = Field(
        None,
        max_length=2048,
        description="WebSub: gets a POST of JSON and decides about each subscriber; null: all are allowed.",
    )
    moved_to: str | None = Field(
        None, max_length=2048, description="WebSub: the topic's URL redirects there; null: it is served here."
    )
    retention_days: int | None = Field(
        None, ge=0, le=36_500, description="How long its events are kept; 0: for ever; null: by the hub's setting."
    )
    job: JobRule | None = Field(None, description="With the sink `jobs`: the job that each event enqueues.")


_SETTINGS_EXAMPLE: dict[str, Any] = {
    "topic": "orders.created",
    "sinks": None,
    "order": "key",
    "kafka_topic": None,
    "amqp_exchange": None,
    "amqp_routing_key": None,
    "on_refused": None,
    "validator_url": None,
    "moved_to": None,
    "retention_days": None,
    "job": None,
    "created_at": "2026-01-15T09:30:00Z",
    "updated_at": "2026-01-15T09:30:00Z",
}
_TOPIC_EXAMPLE: dict[str, Any] = {
    "topic": "orders.created",
    "sinks": None,
    "order": "key",
    "created_at": "2026-01-15T09:30:00Z",
    "last_event_id": "evt_k3v7q2ha_42",
    "last_accepted_at": "2026-01-15T09:31:07.120455Z",
}


class TopicSettingsOut(TopicSettings):
    """The present settings."""

    model_config = ConfigDict(extra="ignore", json_schema_extra={"examples": [_SETTINGS_EXAMPLE]})

    topic: str
    created_at: datetime
    updated_at: datetime
    # A mirror's exchange has the name of RabbitHub's, which may be longer.
    amqp_exchange: str | None = Field(None, description="null: the configured exchange.")


class TopicOut(BaseModel):
    """A topic in the list."""

    topic: str
    sinks: list[Sink] | None
    order: Literal["key", "none"]
    created_at: datetime
    last_event_id: str | None
    last_accepted_at: datetime | None


class TopicPage(BaseModel):
    """A page of topics by name."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_TOPIC_EXAMPLE], "next_cursor": None}]})

    items: list[TopicOut]
    next_cursor: str | None


def _order(row: Row) -> str:
    return "key" if row["ordered"] else "none"


@router.get("", summary="List topics", responses=refusals("invalid-cursor", "invalid-parameter"))
@needs("read", reach="route")
async def list_topics(
    request: Request,
    context: In,
    paging: PagedByName,
    prefix: Annotated[
        str | None, Query(max_length=249, pattern=r"^[A-Za-z0-9._-]+$", description="How the name begins.")
    ] = None,
) -> TopicPage:
    """By name; `Link: rel="next"` and `next_cursor` lead to the next page.

    A key for some topics gets these.
    """
    own = topics_expression(request)
    rows = await context.database.fetch("topic.list", "default", *paging.after(""), paging.limit + 1, prefix, own)
    items = [
        {
            **row,
            "topic": row["name"],
            "order": _order(row),
            "last_event_id": format_event_id(context.incarnation, row["last_id"]) if row["last_id"] else None,
        }
        for row in rows[: paging.limit]
    ]
    return TopicPage.model_validate({"items": items, "next_cursor": paging.next_of(rows, "name")})


_URL_CHARACTERS = "%:/?#[]@!$&'()*+,;=-._~"
_LATEST: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The latest event's body, with the Content-Type it was published with.",
        "content": {"*/*": {"schema": {"description": "The published content."}}},
        "headers": {
            "Link": {"schema": {"type": "string"}, "description": "`hub` and `self`, for WebSub subscribers."},
            "ETag": {"schema": {"type": "string"}, "description": "The event's id."},
        },
    },
    204: {"description": "The topic exists; it has no event yet."},
    301: {"description": "The topic has moved to the `Location`, which has links of its own."},
    304: {"description": "If-None-Match names the latest event."},
    **refusals("unknown-topic", "invalid-topic", "event-erased"),
}


@router.head("/{topic}", include_in_schema=False)
@router.get("/{topic}", summary="Get the topic's latest content", response_class=Response, responses=_LATEST)
@needs("read", payloads=True, reach="topic", websub=True)
async def latest(request: Request, topic: str, context: In) -> Response:
    """Returns the latest event's body with its type, and `Link` headers `hub` and `self`.

    This is the WebSub topic URL.
    """
    name = checked_topic(topic)
    moved_to = await context.database.fetchval("topic.moved_to", "default", name)
    if moved_to is not None:
        return Response(status_code=301, headers={"Location": quote(moved_to, safe=_URL_CHARACTERS)})
    links = {"Link": link_header(f"{context.public_url}/hub", f"{context.public_url}/topics/{name}")}
    row = await context.database.fetchrow("event.latest", "default", name)
    if row is None:
        if not await context.database.fetchrow("topic.get", "default", name):
            raise Problem("unknown-topic", f"There is no topic {name}.", headers=links)
        return Response(status_code=204, headers=links)
    if row["erased_at"] is not None:
        raise Problem("event-erased", f"The latest event of {name} is erased.", headers=links)
    headers = {**links, "ETag": f'"{format_event_id(context.incarnation, row["id"])}"'}
    if headers["ETag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return UserContent(row["payload"], row["content_type"], headers)


def _check_url(url: str | None, parameter: str, context: Context) -> None:
    """Check the text only; an address is judged when it is dialled, as for callbacks."""
    try:
        if url is not None:
            parse_target(url, context.policy)
    except UrlRefused as error:
        raise Problem("invalid-parameter", str(error), parameter=parameter) from None


def _check_loop(name: str, body: TopicSettings, context: Context) -> None:
    """Refuse to publish to an exchange from which an AMQP source reads events of this topic."""
    settings = context.settings
    exchange = body.amqp_exchange or settings.amqp_exchange
    if body.sinks is not None and "amqp" not in body.sinks:
        return
    for route in settings.sources_of_sink():
        is_loop = route.exchange == exchange and route.topic in ("", name)
        if is_loop and not (route.rabbithub_exchange or route.shared or route.vhost):
            detail = f"HOOKWIRE_AMQP_SOURCES reads the exchange {exchange}: each event would come back."
            raise Problem("invalid-parameter", detail, parameter="amqp_exchange")


def _check_kafka_loop(name: str, body: TopicSettings, context: Context) -> None:
    """Refuse to publish to a Kafka topic that a source reads."""
    settings = context.settings
    target = body.kafka_topic or settings.kafka_topic_prefix + name
    if "kafka" in (body.sinks or ()) and route_for(settings.kafka_routes_of_sink(), target) is not None:
        detail = f"HOOKWIRE_KAFKA_SOURCES reads the Kafka topic {target}: each event would come back."
        raise Problem("invalid-parameter", detail, parameter="kafka_topic")


def _settings_out(row: Row) -> TopicSettingsOut:
    rule = json.loads(row["job"]) if row["job"] is not None else None
    return TopicSettingsOut.model_validate(
        {name: value for name, value in row.items() if name not in ("name", "ordered")}
        | {"topic": row["name"], "order": _order(row), "job": rule}
    )


async def _rule_of(topic: str, body: TopicSettings, context: Context) -> str | None:
    """Return the rule of jobs as JSON, once the database has accepted it."""
    if (body.job is not None) != ("jobs" in (body.sinks or ())):
        raise Problem("invalid-parameter", "job: the sink jobs and a rule are given together", parameter="job")
    if body.job is None:
        return None
    if is_reserved(topic):
        raise Problem("invalid-parameter", "sinks: topics of the hub's own enqueue no jobs", parameter="sinks")
    rule = json.dumps(body.job.model_dump(mode="json", exclude_none=True))
    with job_refusals():
        await context.database.fetchval("job.admit_rule", rule)
    return rule


@router.get("/{topic}/settings", summary="Get a topic's settings", responses=refusals("unknown-topic", "invalid-topic"))
@needs("read", reach="topic")
async def get_settings(topic: str, response: Response, context: In) -> TopicSettingsOut:
    """Shows routing, order and retention. Their `ETag` names this version."""
    row = await context.database.fetchrow("topic.get", "default", checked_topic(topic))
    if row is None:
        raise Problem("unknown-topic", f"There is no topic {topic}.")
    response.headers["ETag"] = etag(row["version"])
    return _settings_out(row)


@router.put(
    "/{topic}/settings",
    summary="Set a topic's settings",
    responses=refusals(*OPTIONAL_BODY, "invalid-topic", "precondition-failed", "unknown-job"),
)
@needs("admin", reach="topic")
async def put_settings(
    request: Request, topic: str, body: TopicSettings, response: Response, context: In, if_match: IfMatch = None
) -> TopicSettingsOut:
    """Creates the topic if there is none.

    `sinks` and `order` apply to events accepted from now on. The other settings apply at once, also to waiting events.
    """
    _check_url(body.validator_url, "validator_url", context)
    _check_url(body.moved_to, "moved_to", context)
    _check_loop(topic, body, context)
    _check_kafka_loop(topic, body, context)
    name, version = checked_topic(topic), version_meant(if_match)
    rule = await _rule_of(name, body, context)
    if if_match is not None and not await context.database.fetchrow("topic.get", "default", name):
        raise Problem("precondition-failed", f"There is no topic {name}.")
    row = await context.database.fetchrow(
        "topic.put", "default", name, sorted(set(body.sinks)) if body.sinks is not None else None, body.order == "key",
        body.kafka_topic, body.amqp_exchange, body.amqp_routing_key, body.on_refused, body.validator_url, body.moved_to,
        body.retention_days, version, rule,
    )  # fmt: skip
    if row is None:
        raise Problem("precondition-failed")
    await audited(request, context, "topic.settings", name)
    response.headers["ETag"] = etag(row["version"])
    return _settings_out(row)
