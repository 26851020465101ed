"""/foreign-topics: topics of other publishers that are fetched here; /hub/pairs: the status of a subscriber."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Query, Request
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.dependency import In
from app.web.api.route.context import Context
from app.web.api.route.paging import PagedByName
from app.web.api.route.refusals import OPTIONAL_BODY, refusals
from app.web.api.route.strict_route import strict_router
from app.web.authentication import require_topic
from app.web.problem import Problem
from app.web.scopes import needs
from db.pool import Row
from egress.url import UrlRefused, parse_target
from hub.intent import IntentState, IntentStep
from hub.subscription_status import SubscriptionStatus, subscription_status
from hub.topic_url import ForeignTopic, TopicUrlRefused, foreign_name, identity, topic_of

__all__ = ["SINKS_MEANING", "TopicSink", "foreign", "pair_of", "router", "standing_of"]

router = strict_router("", "WebSub")
TopicSink = Literal["kafka", "amqp", "webhooks"]
SINKS_MEANING = "The sinks of its events from now on; webhooks alone unless set before."
_URL_EXAMPLE = "https://blog.example/feed"
_FEED_DIFF = "Distribute only new and changed entries of Atom and RSS. Content that is no such feed is a failed fetch."


class ForeignTopicIn(BaseModel):
    """A topic of another publisher; a missing field stays unchanged, or is false."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"url": _URL_EXAMPLE, "feed_diff": True}]}
    )

    url: str = Field(max_length=2048)
    feed_diff: bool | None = Field(None, description=_FEED_DIFF)
    always_deliver: bool | None = Field(None, description="Distribute after each ping, also unchanged content.")
    sinks: list[TopicSink] | None = Field(None, min_length=1, description=SINKS_MEANING)


_EXAMPLE: dict[str, Any] = {
    "topic": "hookwire.web.5a105e8b9d40e1329780d62ea2265d8a00000000",
    "url": _URL_EXAMPLE,
    "self_url": _URL_EXAMPLE,
    "hub_url": "https://hub.example/hub",
    "feed_diff": True,
    "always_deliver": False,
    "sinks": ["webhooks"],
    "pings": 17,
    "pings_fetched": 17,
    "due_at": None,
    "failures": 0,
    "last_status": 200,
    "last_error": None,
    "fetched_at": "2026-01-15T09:31:07Z",
    "changed_at": "2026-01-15T09:31:07Z",
    "created_at": "2026-01-15T09:30:00Z",
}


class ForeignTopicOut(BaseModel):
    """The state of a foreign topic."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    topic: str = Field(description="The name of the topic here, for subscriptions by the API.")
    url: str
    self_url: str | None = Field(description="The URL that it advertises as its own.")
    hub_url: str | None
    feed_diff: bool
    always_deliver: bool
    sinks: list[TopicSink] | None = Field(description="The sinks of its events; null: every configured sink.")
    pings: int
    pings_fetched: int = Field(description="The number of pings at the start of the last successful fetch.")
    due_at: datetime | None = Field(description="Time of the next fetch; null: at the next ping.")
    failures: int = Field(description="Failed fetches in a row.")
    last_status: int | None
    last_error: str | None
    fetched_at: datetime | None
    changed_at: datetime | None
    created_at: datetime


class ForeignTopicPage(BaseModel):
    """A page of foreign topics by name."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_EXAMPLE], "next_cursor": None}]})

    items: list[ForeignTopicOut]
    next_cursor: str | None


@router.put(
    "/foreign-topics",
    summary="Register a topic of another publisher",
    responses=refusals(*OPTIONAL_BODY),
)
@needs("admin")
async def register(body: ForeignTopicIn, context: In) -> ForeignTopicOut:
    """Subscribers may name it from now on, where only registered topics are allowed."""
    name = foreign(body.url, context)
    async with context.database.transaction() as session:
        await session.execute("foreign.ensure", "default", name, body.url)
        await session.execute("foreign.register", "default", name, body.feed_diff, body.always_deliver)
        await session.execute("topic.set_sinks", "default", name, body.sinks)
        row = await session.fetchrow("foreign.get", "default", name)
    return ForeignTopicOut.model_validate(dict(row or {}))


@router.get("/foreign-topics", summary="List topics of other publishers", responses=refusals("invalid-cursor"))
@needs("read", instead="Topics of other publishers are URLs, and belong to no key's topics.")
async def list_foreign_topics(context: In, paging: PagedByName) -> ForeignTopicPage:
    """Shows pings, the result of the last fetch and the time of the next."""
    rows = await context.database.fetch("foreign.list", "default", *paging.after(""), paging.limit + 1)
    return ForeignTopicPage.model_validate(paging.page(rows, "topic"))


def foreign(url: str, context: Context) -> str:
    """Return the name of another publisher's topic; else ``Problem``."""
    try:
        topic_of(context.public_url, url)
    except TopicUrlRefused as error:
        raise Problem("invalid-parameter", f"url {error}", parameter="url") from None
    except ForeignTopic:
        pass
    else:
        raise Problem("invalid-parameter", "url is of a topic that is hosted here", parameter="url")
    try:
        parse_target(url, context.policy)
    except UrlRefused as error:
        raise Problem("invalid-parameter", str(error), parameter="url") from None
    return foreign_name(url)


_PAIR_EXAMPLE: dict[str, Any] = {
    "standing": "renewing",
    "subscription_id": "sub_3f1c0a9be2d45c7780aa1234",
    "reason": None,
    "lease_until": "2026-01-25T09:30:00Z",
    "requested_at": "2026-01-24T09:30:00Z",
    "verified_at": "2026-01-15T09:30:01Z",
    "attempts": 1,
    "next_attempt_at": "2026-01-24T09:30:05Z",
    "owed": 0,
    "last_outcome": None,
}


class PairOut(BaseModel):
    """The status of a topic's subscriber."""

    model_config = ConfigDict(json_schema_extra={"examples": [_PAIR_EXAMPLE]})

    standing: SubscriptionStatus
    subscription_id: str | None
    reason: str | None = Field(description="Reason of the request's failure or retry, or of the subscription's end.")
    lease_until: datetime | None
    requested_at: datetime | None = Field(
        description="Time of the latest request; decided requests are kept for a day."
    )
    verified_at: datetime | None
    attempts: int | None = Field(description="Number of requests to the callback, or to the publisher.")
    next_attempt_at: datetime | None = Field(
        description="Time of the next request. The next delivery is `next_attempt_at` of the subscription."
    )
    owed: int = Field(description="Deliveries that are still open, counted up to 1,001.")
    last_outcome: str | None = Field(description="Reason of the oldest open delivery.")


@router.get(
    "/hub/pairs", summary="Get the status of a subscriber", responses=refusals("invalid-parameter", "uri-too-long")
)
@needs("read", reach="route")
async def pair(
    request: Request,
    context: In,
    topic: Annotated[str, Query(max_length=2048, description="The topic's URL, as in `hub.topic`.")],
    callback: Annotated[str, Query(max_length=2048, description="The callback, as in `hub.callback`.")],
) -> PairOut:
    """Shows the status of a topic and a callback: request, subscription, lease, verification, deliveries."""
    name, identity_ = pair_of(context, topic, callback)
    require_topic(request, name)
    return PairOut.model_validate(_pair(await _row(context, name, identity_)))


def pair_of(context: Context, topic: str, callback: str) -> tuple[str, bytes]:
    """Return the topic's name here and the pair's identity, of a topic's URL and a callback; else ``Problem``."""
    if "\0" in topic or "\0" in callback:
        raise Problem("invalid-parameter", "A URL holds no NUL character.", parameter="topic")
    try:
        name = topic_of(context.public_url, topic)
    except TopicUrlRefused as error:
        raise Problem("invalid-parameter", f"topic {error}", parameter="topic") from None
    except ForeignTopic:
        name = foreign_name(topic)
    return name, identity(name, callback)


async def standing_of(context: Context, name: str, pair: bytes) -> SubscriptionStatus:
    """Return the status of a pair, in one word."""
    found: SubscriptionStatus = _pair(await _row(context, name, pair))["standing"]
    return found


async def _row(context: Context, name: str, pair: bytes) -> Row:
    row = await context.database.fetchrow("intent.pair", "default", pair, name)
    assert row is not None, "a row of NULLs at least"
    return row


def _pair(row: Row) -> dict[str, Any]:
    asked = row["request_state"]
    request = (IntentState(asked), IntentStep(row["stage"]), int(row["stage_from"])) if asked else None
    is_later = bool(asked and (row["updated_at"] is None or row["requested_at"] >= row["updated_at"]))
    return {
        **row,
        "standing": subscription_status(request, row["subscription_state"], is_later=is_later),
        "subscription_id": row["public_id"],
        "reason": row["state_reason"] or row["request_reason"],
    }
