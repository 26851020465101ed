"""/upstreams: topics of other publishers that their hubs deliver here."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.dependency import In
from app.web.api.route.context import Context
from app.web.api.route.paging import PagedByName
from app.web.api.route.refusals import OPTIONAL_BODY, refusals
from app.web.api.route.strict_route import strict_router
from app.web.api.subscribing.foreign_topics import SINKS_MEANING, TopicSink, foreign
from app.web.problem import Problem
from app.web.scopes import needs
from egress.url import UrlRefused, parse_target
from hub.upstream import end, want

__all__ = ["router"]

router = strict_router("/upstreams", "WebSub")
_URL_EXAMPLE = "https://blog.example/feed"


class UpstreamIn(BaseModel):
    """A topic of another publisher, to which this hub subscribes."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"url": _URL_EXAMPLE}]})

    url: str = Field(max_length=2048)
    sinks: list[TopicSink] | None = Field(None, min_length=1, description=SINKS_MEANING)
    hub_url: str | None = Field(None, max_length=2048, description="Its hub; null: the hub that the topic advertises.")
    topic_url: str | None = Field(
        None, max_length=2048, description="The topic's URL at its hub; null: the URL that it advertises as its own."
    )


_EXAMPLE: dict[str, Any] = {
    "topic": "hookwire.web.5a105e8b9d40e1329780d62ea2265d8a00000000",
    "url": _URL_EXAMPLE,
    "hub_url": "https://hub.example/hub",
    "self_url": _URL_EXAMPLE,
    "sinks": ["webhooks"],
    "state": "active",
    "reason": None,
    "lease_until": "2026-01-25T09:30:00Z",
    "due_at": "2026-01-23T09:30:00Z",
    "failures": 0,
    "given_hub_url": None,
    "given_topic_url": None,
    "received_at": "2026-01-16T11:02:00Z",
    "is_quiet": False,
    "created_at": "2026-01-15T09:30:00Z",
}


class UpstreamOut(BaseModel):
    """The state of the subscription at the other hub."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    topic: str = Field(description="The name of the topic here.")
    url: str
    hub_url: str | None = Field(description="The hub that was asked last.")
    self_url: str | None
    sinks: list[TopicSink] | None = Field(description="The sinks of its events; null: every configured sink.")
    state: Literal["wanted", "requested", "active", "denied", "ended"]
    reason: str | None
    lease_until: datetime | None
    due_at: datetime | None = Field(description="Time of the next request to its hub.")
    failures: int
    given_hub_url: str | None = Field(description="The hub that was given by hand.")
    given_topic_url: str | None
    received_at: datetime | None = Field(description="Time of the last delivery.")
    is_quiet: bool = Field(description="It is active, and nothing came for twice its longest pause, or for a day.")
    created_at: datetime


class UpstreamPage(BaseModel):
    """A page of upstreams by name."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_EXAMPLE], "next_cursor": None}]})

    items: list[UpstreamOut]
    next_cursor: str | None


@router.put(
    "",
    status_code=202,
    summary="Subscribe to another publisher's topic",
    responses=refusals(*OPTIONAL_BODY),
)
@needs("admin")
async def subscribe(body: UpstreamIn, context: In) -> UpstreamIn:
    """Discovers the topic's hub and subscribes there. The deliveries of that hub become events of the foreign topic.

    Where the topic advertises none or a wrong one, give `hub_url` and `topic_url`.
    """
    name = foreign(body.url, context)
    for parameter, url in (("hub_url", body.hub_url), ("topic_url", body.topic_url)):
        if url is not None:
            _check_url(url, parameter, context)
    await want(context.hub, body.url, body.hub_url, body.topic_url)
    await context.database.execute("topic.set_sinks", "default", name, body.sinks)
    return body


@router.get("", summary="List topics that other hubs deliver here", responses=refusals("invalid-cursor"))
@needs("read", instead="Topics of other hubs are URLs, and belong to no key's topics.")
async def list_upstreams(context: In, paging: PagedByName) -> UpstreamPage:
    """Shows the state, the hub and the lease of each topic."""
    rows = await context.database.fetch("upstream.list", "default", *paging.after(""), paging.limit + 1)
    return UpstreamPage.model_validate(paging.page(rows, "topic"))


@router.delete(
    "",
    status_code=204,
    summary="Unsubscribe from another publisher's topic",
    responses=refusals("not-found", "invalid-parameter", "uri-too-long"),
)
@needs("admin")
async def unsubscribe(context: In, url: Annotated[str, Query(max_length=2048)]) -> None:
    """The other hub gets 410 at its next delivery."""
    foreign(url, context)
    if not await end(context.hub, url):
        raise Problem("not-found", "There is no subscription to this topic.")


def _check_url(url: str, parameter: str, context: Context) -> None:
    try:
        parse_target(url, context.hub.options.url_policy)
    except UrlRefused as refused:
        raise Problem("invalid-parameter", f"{parameter}: {refused}", parameter=parameter) from None
